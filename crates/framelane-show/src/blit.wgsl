// Copies what was composed onto the surface, pixel by pixel.

@group(0) @binding(0) var composed: texture_2d<f32>;

// One triangle that covers the target.
@vertex
fn cover(@builtin(vertex_index) i: u32) -> @builtin(position) vec4<f32> {
    let corner = vec2<f32>(f32(i & 1u), f32(i >> 1u)) * 4.0 - 1.0;
    return vec4<f32>(corner, 0.0, 1.0);
}

@fragment
fn copy(@builtin(position) position: vec4<f32>) -> @location(0) vec4<f32> {
    return vec4<f32>(textureLoad(composed, vec2<i32>(position.xy), 0).rgb, 1.0);
}

// For targets that encode sRGB on their own when they are written.
@fragment
fn copy_decoded(@builtin(position) position: vec4<f32>) -> @location(0) vec4<f32> {
    let c = textureLoad(composed, vec2<i32>(position.xy), 0).rgb;
    let low = c / 12.92;
    let high = pow((c + 0.055) / 1.055, vec3<f32>(2.4));
    return vec4<f32>(select(high, low, c <= vec3<f32>(0.04045)), 1.0);
}
