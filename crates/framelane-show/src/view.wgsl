// Draws one picture into its rectangle of the target; the rest of the target is background.

struct Params {
    // The picture's rectangle in the target: left, top, width, height, in pixels.
    rect: vec4<f32>,
    // Colour around the picture.
    background: vec4<f32>,
    // Left of this target column the picture before is shown; none: a large negative number.
    split: f32,
    // 1 if the target encodes sRGB on its own when it is written.
    target_encodes: u32,
    pad: vec2<u32>,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var linear: sampler;
@group(0) @binding(2) var after: texture_2d<f32>;
@group(0) @binding(3) var before: texture_2d<f32>;

// One triangle that covers the target.
@vertex
fn cover(@builtin(vertex_index) i: u32) -> @builtin(position) vec4<f32> {
    let corner = vec2<f32>(f32(i & 1u), f32(i >> 1u)) * 4.0 - 1.0;
    return vec4<f32>(corner, 0.0, 1.0);
}

// The picture's colour at `p`, in target pixels from the rectangle's corner.
//
// As large as its rectangle, it is shown pixel by pixel. Magnified, it is interpolated linearly.
// Made smaller, each target pixel is the mean of the texels below it (of 8×8 samples at most).
fn colour(picture: texture_2d<f32>, p: vec2<f32>) -> vec3<f32> {
    let size = vec2<f32>(textureDimensions(picture));
    let shown = params.rect.zw;
    if all(size == shown) {
        return textureLoad(picture, vec2<i32>(floor(p)), 0).rgb;
    }
    let taps = vec2<i32>(clamp(ceil(size / shown - 0.01), vec2<f32>(1.0), vec2<f32>(8.0)));
    let corner = floor(p);
    var sum = vec3<f32>(0.0);
    for (var y = 0; y < taps.y; y++) {
        for (var x = 0; x < taps.x; x++) {
            let inside = (vec2<f32>(vec2<i32>(x, y)) + 0.5) / vec2<f32>(taps);
            sum += textureSampleLevel(picture, linear, (corner + inside) / shown, 0.0).rgb;
        }
    }
    return sum / f32(taps.x * taps.y);
}

fn decode(c: vec3<f32>) -> vec3<f32> {
    let low = c / 12.92;
    let high = pow((c + 0.055) / 1.055, vec3<f32>(2.4));
    return select(high, low, c <= vec3<f32>(0.04045));
}

@fragment
fn paint(@builtin(position) position: vec4<f32>) -> @location(0) vec4<f32> {
    let p = position.xy - params.rect.xy;
    var c = params.background.rgb;
    if all(p >= vec2<f32>(0.0)) && all(p < params.rect.zw) {
        if position.x < params.split {
            c = colour(before, p);
        } else {
            c = colour(after, p);
        }
    }
    if params.target_encodes == 1u {
        c = decode(c);
    }
    return vec4<f32>(c, 1.0);
}
