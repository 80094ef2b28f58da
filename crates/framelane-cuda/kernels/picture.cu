// Tensors to pictures for a display: four bytes a pixel, R G B A, opaque. The host twins in
// src/kernels/picture_twin.rs give the same bits: products and sums are rounded one after the other (never fused),
// to nearest, ties to even; NV12 is done in whole numbers.
//
// The source's strides are in elements, those of the target and of NV12 in bytes.

#include "numbers.cuh"

// The numbers shown as black and as white, and the way there; a pixel for each byte of a single channel (from
// src/kernels/colours.rs), or none for grey.
struct Look { float scale, bias, low, high; const u32 *colours; u32 bgr, mark; };

// NaN becomes 0.
__device__ __forceinline__ u32 level(float v, const Look &look) {
    float shown = __fadd_rn(__fmul_rn(v, look.scale), look.bias);
    return __float2uint_rn(fminf(fmaxf(shown, 0.f), 255.f));
}

// 4: no number, 2: beyond white, 1: beyond black, 0: none of them.
__device__ __forceinline__ u32 outside(float v, const Look &look) {
    bool rising = look.low < look.high;
    if (v != v) return 4;
    if (rising ? v > look.high : v < look.high) return 2;
    return (rising ? v < look.low : v > look.low) ? 1 : 0;
}

// Magenta, red, blue.
__device__ __forceinline__ u32 marked(u32 word, u32 outside) {
    if (outside & 4) return 0xffff00ffu;
    if (outside & 2) return 0xff0000ffu;
    return outside ? 0xffff0000u : word;
}

__device__ __forceinline__ u32 of_one(float v, const Look &look) {
    u32 byte = level(v, look);
    u32 word = look.colours ? look.colours[byte] : 0xff000000u | byte * 0x010101u;
    return look.mark ? marked(word, outside(v, look)) : word;
}

__device__ __forceinline__ u32 of_three(float a, float b, float c, const Look &look) {
    u32 first = level(a, look), third = level(c, look);
    u32 word = 0xff000000u | level(b, look) << 8 | (look.bgr ? third | first << 16 : first | third << 16);
    return look.mark ? marked(word, outside(a, look) | outside(b, look) | outside(c, look)) : word;
}

template <typename T>
__device__ __forceinline__ void to_picture(const T *from, u8 *to, u32 height, u32 width, u32 channels, u64 fr, u64 fp,
                                           u64 fc, u64 tr, const Look &look) {
    Pixel p = pixel(height, width);
    if (!p.inside) return;
    from += p.row * fr + p.column * fp;
    u32 word = channels == 1 ? of_one(load(from), look)
                             : of_three(load(from), load(from + fc), load(from + 2 * fc), look);
    *(u32 *)(to + p.row * tr + p.column * 4ull) = word;
}

// The common cases, four pixels a thread: planes, or three bytes side by side; rows, planes and the target aligned
// for it (the caller sees to that). The same arithmetic.

__device__ __forceinline__ void store_pixels(u8 *to, u32 count, const u32 *pixels) {
    if (count == 4) {
        Words w = {{pixels[0], pixels[1], pixels[2], pixels[3]}};
        *(Words *)to = w;
    } else {
#pragma unroll
        for (int k = 0; k < 3; k++)
            if (k < count) ((u32 *)to)[k] = pixels[k];
    }
}

// Nothing beyond the first `count` is read.
template <typename T>
__device__ __forceinline__ void load_four(const T *from, u32 count, float *to) {
    union { T t[4]; typename FourOf<T>::type four; } in;
    if (count == 4) {
        in.four = *(const typename FourOf<T>::type *)from;
    } else {
#pragma unroll
        for (int k = 0; k < 4; k++) in.t[k] = from[k < count ? k : 0];
    }
#pragma unroll
    for (int k = 0; k < 4; k++) to[k] = load(&in.t[k]);
}

template <typename T>
__device__ __forceinline__ void planes_to_picture(const T *from, u8 *to, u32 height, u32 width, u32 channels, u64 fr,
                                                  u64 fc, u64 tr, const Look &look) {
    Pixel p = pixel(height, (width + 3) / 4);
    if (!p.inside) return;
    u32 x = p.column * 4;
    from += p.row * fr + x;
    u32 count = min(4u, width - x);
    float v[3][4] = {};
#pragma unroll
    for (int c = 0; c < 3; c++)
        if (c < channels) load_four(from + c * fc, count, v[c]);
    u32 pixels[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        pixels[k] = channels == 1 ? of_one(v[0][k], look) : of_three(v[0][k], v[1][k], v[2][k], look);
    store_pixels(to + p.row * tr + x * 4ull, count, pixels);
}

#define TO_PICTURE(T)                                                                                                \
    extern "C" __global__ void fl_##T##_to_picture(const T *from, u8 *to, u32 height, u32 width, u32 channels,       \
                                                   u64 fr, u64 fp, u64 fc, u64 tr, float scale, float bias,          \
                                                   float low, float high, const u32 *colours, u32 bgr, u32 mark) {   \
        Look look = {scale, bias, low, high, colours, bgr, mark};                                                    \
        to_picture<T>(from, to, height, width, channels, fr, fp, fc, tr, look);                                      \
    }                                                                                                                \
    extern "C" __global__ void fl_##T##_planes_to_picture(const T *from, u8 *to, u32 height, u32 width,              \
                                                          u32 channels, u64 fr, u64 fc, u64 tr, float scale,         \
                                                          float bias, float low, float high, const u32 *colours,     \
                                                          u32 bgr, u32 mark) {                                       \
        Look look = {scale, bias, low, high, colours, bgr, mark};                                                    \
        planes_to_picture<T>(from, to, height, width, channels, fr, fc, tr, look);                                   \
    }

TO_PICTURE(u8)
TO_PICTURE(f16)
TO_PICTURE(bf16)
TO_PICTURE(f32)

extern "C" __global__ void fl_packed_to_picture(const u8 *from, u8 *to, u32 height, u32 width, u64 fr, u64 tr,
                                                float scale, float bias, float low, float high, u32 bgr, u32 mark) {
    Look look = {scale, bias, low, high, 0, bgr, mark};
    Pixel p = pixel(height, (width + 3) / 4);
    if (!p.inside) return;
    u32 x = p.column * 4;
    from += p.row * fr + x * 3ull;
    u32 count = min(4u, width - x);
    u32 words[3] = {0, 0, 0};
    if (count == 4) {
#pragma unroll
        for (int i = 0; i < 3; i++) words[i] = ((const u32 *)from)[i];
    } else {
#pragma unroll
        for (int i = 0; i < 9; i++)
            if (i < count * 3) words[i / 4] |= (u32)from[i] << (8 * (i % 4));
    }
    u32 pixels[4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        pixels[k] = of_three((float)byte_of(words, 3 * k), (float)byte_of(words, 3 * k + 1),
                             (float)byte_of(words, 3 * k + 2), look);
    store_pixels(to + p.row * tr + x * 4ull, count, pixels);
}

// Sixteen bits of fraction, halves up.
__device__ __forceinline__ u32 whole(int v) { return (u32)min(max((v + 32768) >> 16, 0), 255); }

// Each pixel has the chroma of its block of 2 x 2.
extern "C" __global__ void fl_nv12_to_picture(const u8 *from, u8 *to, u32 height, u32 width, u64 yr, u64 chroma,
                                              u64 cr, u64 tr, int black, int y, int red_v, int green_u, int green_v,
                                              int blue_u) {
    Pixel p = pixel(height, width);
    if (!p.inside) return;
    int light = ((int)from[p.row * yr + p.column] - black) * y;
    from += chroma + p.row / 2 * cr + (p.column & ~1u);
    int u = (int)from[0] - 128, v = (int)from[1] - 128;
    u32 red = whole(light + v * red_v), green = whole(light - u * green_u - v * green_v),
        blue = whole(light + u * blue_u);
    *(u32 *)(to + p.row * tr + p.column * 4ull) = 0xff000000u | red | green << 8 | blue << 16;
}
