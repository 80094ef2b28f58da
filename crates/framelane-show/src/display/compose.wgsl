// Draws one pane into its tile of the target: the picture in its rectangle, background around it.

struct Params {
    // The tile in the target: left, top, width, height, in pixels.
    tile: vec4<u32>,
    // The picture's rectangle in the target: left, top, width, height, in pixels. It may be larger than the tile.
    rect: vec4<f32>,
    // Colour around the picture.
    background: vec4<f32>,
    after: Source,
    before: Source,
    // Left of this target column the picture before is shown.
    split: u32,
    // 1 if magnified pixels keep their edges.
    sharp: u32,
    pad: vec2<u32>,
}

// A picture in `pixels`: width and height, pixels from row to row, where it begins. Without a picture all are 0.
struct Source {
    size: vec2<u32>,
    pitch: u32,
    start: u32,
}

// In storage, not uniform: a software driver (lavapipe of Mesa 22.3) makes the shader anew for each use of uniforms that
// steer it, and keeps all of them.
@group(0) @binding(0) var<storage, read> params: Params;
// RGBA8, a pixel a word.
@group(0) @binding(1) var<storage, read> pixels: array<u32>;
@group(0) @binding(2) var target_texture: texture_storage_2d<rgba8unorm, write>;

fn pixel(src: Source, at: vec2<i32>) -> vec3<f32> {
    let inside = vec2<u32>(clamp(at, vec2<i32>(0), vec2<i32>(src.size) - 1));
    return unpack4x8unorm(pixels[src.start + inside.y * src.pitch + inside.x]).rgb;
}

// The picture at `at`, in its own pixels, interpolated linearly between the four nearest.
fn between(src: Source, at: vec2<f32>) -> vec3<f32> {
    let corner = floor(at - 0.5);
    let part = at - 0.5 - corner;
    let i = vec2<i32>(corner);
    let top = mix(pixel(src, i), pixel(src, i + vec2<i32>(1, 0)), part.x);
    let bottom = mix(pixel(src, i + vec2<i32>(0, 1)), pixel(src, i + vec2<i32>(1, 1)), part.x);
    return mix(top, bottom, part.y);
}

// The colour at `p`, in target pixels from the rectangle's corner, which lies on a whole pixel.
//
// As large as its rectangle, the picture is shown pixel by pixel. Magnified, it is interpolated linearly, or its pixels
// keep their edges. Made smaller, each target pixel is the mean of the pixels below it (of 8×8 samples at most).
fn colour(src: Source, p: vec2<f32>) -> vec3<f32> {
    let size = vec2<f32>(src.size);
    let shown = params.rect.zw;
    if all(size == shown) {
        return pixel(src, vec2<i32>(p));
    }
    let scale = size / shown;
    if params.sharp == 1u && all(scale < vec2<f32>(1.0)) {
        return pixel(src, vec2<i32>((p + 0.5) * scale));
    }
    let taps = vec2<i32>(clamp(ceil(scale - 0.01), vec2<f32>(1.0), vec2<f32>(8.0)));
    var sum = vec3<f32>(0.0);
    for (var y = 0; y < taps.y; y++) {
        for (var x = 0; x < taps.x; x++) {
            let inside = (vec2<f32>(vec2<i32>(x, y)) + 0.5) / vec2<f32>(taps);
            sum += between(src, (p + inside) * scale);
        }
    }
    return sum / f32(taps.x * taps.y);
}

@compute @workgroup_size(16, 16)
fn compose(@builtin(global_invocation_id) id: vec3<u32>) {
    if any(id.xy >= params.tile.zw) {
        return;
    }
    let at = params.tile.xy + id.xy;
    var c = params.background.rgb;
    let p = vec2<f32>(at) - params.rect.xy;
    if all(p >= vec2<f32>(0.0)) && all(p < params.rect.zw) && params.after.size.x > 0u {
        if at.x < params.split && params.before.size.x > 0u {
            c = colour(params.before, p);
        } else {
            c = colour(params.after, p);
        }
    }
    textureStore(target_texture, at, vec4<f32>(c, 1.0));
}
