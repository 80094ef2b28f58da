// Draws one pane into its tile of the target: the picture in its rectangle, background around it.

struct Params {
    // The tile in the target: left, top, width, height, in pixels.
    tile: vec4<u32>,
    // The picture's rectangle in the target.
    rect: vec4<u32>,
    // Colour around the picture.
    background: vec4<f32>,
    // Width and height of the picture, and pixels from row to row. Without a picture all are 0.
    size: vec2<u32>,
    pitch: u32,
    pad: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// RGBA8, a pixel a word.
@group(0) @binding(1) var<storage, read> pixels: array<u32>;
@group(0) @binding(2) var target_texture: texture_storage_2d<rgba8unorm, write>;

fn pixel(at: vec2<i32>) -> vec3<f32> {
    let inside = vec2<u32>(clamp(at, vec2<i32>(0), vec2<i32>(params.size) - 1));
    return unpack4x8unorm(pixels[inside.y * params.pitch + inside.x]).rgb;
}

// The picture at `at`, in its own pixels, interpolated linearly between the four nearest.
fn between(at: vec2<f32>) -> vec3<f32> {
    let corner = floor(at - 0.5);
    let part = at - 0.5 - corner;
    let i = vec2<i32>(corner);
    let top = mix(pixel(i), pixel(i + vec2<i32>(1, 0)), part.x);
    let bottom = mix(pixel(i + vec2<i32>(0, 1)), pixel(i + vec2<i32>(1, 1)), part.x);
    return mix(top, bottom, part.y);
}

// The colour at `p`, in target pixels from the rectangle's corner.
//
// As large as its rectangle, the picture is shown pixel by pixel. Magnified, it is interpolated linearly.
// Made smaller, each target pixel is the mean of the pixels below it (of 8×8 samples at most).
fn colour(p: vec2<u32>) -> vec3<f32> {
    let shown = params.rect.zw;
    if all(params.size == shown) {
        return pixel(vec2<i32>(p));
    }
    let scale = vec2<f32>(params.size) / vec2<f32>(shown);
    let taps = vec2<i32>(clamp(ceil(scale - 0.01), vec2<f32>(1.0), vec2<f32>(8.0)));
    var sum = vec3<f32>(0.0);
    for (var y = 0; y < taps.y; y++) {
        for (var x = 0; x < taps.x; x++) {
            let inside = (vec2<f32>(vec2<i32>(x, y)) + 0.5) / vec2<f32>(taps);
            sum += between((vec2<f32>(p) + inside) * scale);
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
    // Left of or above the rectangle the difference wraps, and is beyond its width.
    let p = at - params.rect.xy;
    if all(p < params.rect.zw) && params.size.x > 0u {
        c = colour(p);
    }
    textureStore(target_texture, at, vec4<f32>(c, 1.0));
}
