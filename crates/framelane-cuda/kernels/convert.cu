// Images of bytes to images of floats, and back. The host twins in src/kernels/twin.rs give the same bits:
// products and sums are rounded one after the other (never fused), to nearest, ties to even.
//
// Strides are in elements.

#include "numbers.cuh"

__device__ __forceinline__ float pick(int c, float a, float b, float d, float e) {
    return c == 0 ? a : c == 1 ? b : c == 2 ? d : e;
}

template <typename T>
__device__ __forceinline__ void bytes_to(const u8 *from, T *to, u32 height, u32 width, u32 channels, u64 fi, u64 fr,
                                         u64 fp, u64 fc, u64 ti, u64 tr, u64 tp, u64 tc, float s0, float s1, float s2,
                                         float s3, float b0, float b1, float b2, float b3) {
    Pixel p = pixel(height, width);
    if (!p.inside) return;
    from += p.image * fi + p.row * fr + p.column * fp;
    to += p.image * ti + p.row * tr + p.column * tp;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        if (c >= channels) break;
        float v = __fadd_rn(__fmul_rn((float)from[c * fc], pick(c, s0, s1, s2, s3)), pick(c, b0, b1, b2, b3));
        store(to + c * tc, v);
    }
}

// NaN becomes 0; a fourth channel that the source does not have becomes 255 (opaque).
template <typename T>
__device__ __forceinline__ void to_bytes(const T *from, u8 *to, u32 height, u32 width, u32 channels, u32 written,
                                         u64 fi, u64 fr, u64 fp, u64 fc, u64 ti, u64 tr, u64 tp, u64 tc, float s0,
                                         float s1, float s2, float s3, float b0, float b1, float b2, float b3) {
    Pixel p = pixel(height, width);
    if (!p.inside) return;
    from += p.image * fi + p.row * fr + p.column * fp;
    to += p.image * ti + p.row * tr + p.column * tp;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        if (c >= written) break;
        u8 byte = 255;
        if (c < channels) {
            float v = __fadd_rn(__fmul_rn(load(from + c * fc), pick(c, s0, s1, s2, s3)), pick(c, b0, b1, b2, b3));
            byte = (u8)__float2uint_rn(fminf(fmaxf(v, 0.f), 255.f));
        }
        to[c * tc] = byte;
    }
}

// The common case, four pixels a thread: three bytes a pixel side by side on one side, planes on the other, rows
// and planes aligned for it (the caller sees to that). The same arithmetic.

template <typename T>
__device__ __forceinline__ void bytes_to_planes(const u8 *from, T *to, u32 height, u32 width, u64 fi, u64 fr, u64 ti,
                                                u64 tr, u64 tc, float s0, float s1, float s2, float b0, float b1,
                                                float b2) {
    Pixel p = pixel(height, (width + 3) / 4);
    if (!p.inside) return;
    u32 x = p.column * 4;
    from += p.image * fi + p.row * fr + x * 3ull;
    to += p.image * ti + p.row * tr + x;
    u32 words[3] = {0, 0, 0};
    bool whole = x + 4 <= width;
    u32 count = whole ? 4 : width - x;
    if (whole) {
#pragma unroll
        for (int i = 0; i < 3; i++) words[i] = ((const u32 *)from)[i];
    } else {
#pragma unroll
        for (int i = 0; i < 9; i++)
            if (i < count * 3) words[i / 4] |= (u32)from[i] << (8 * (i % 4));
    }
#pragma unroll
    for (int c = 0; c < 3; c++) {
        union { T t[4]; typename FourOf<T>::type four; } out;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float v = (float)byte_of(words, 3 * k + c);
            store(&out.t[k], __fadd_rn(__fmul_rn(v, pick(c, s0, s1, s2, 0.f)), pick(c, b0, b1, b2, 0.f)));
        }
        T *plane = to + c * tc;
        if (whole) {
            *(typename FourOf<T>::type *)plane = out.four;
        } else {
#pragma unroll
            for (int k = 0; k < 3; k++)
                if (k < count) plane[k] = out.t[k];
        }
    }
}

template <typename T>
__device__ __forceinline__ void planes_to_bytes(const T *from, u8 *to, u32 height, u32 width, u32 written, u64 fi,
                                                u64 fr, u64 fc, u64 ti, u64 tr, float s0, float s1, float s2, float b0,
                                                float b1, float b2) {
    Pixel p = pixel(height, (width + 3) / 4);
    if (!p.inside) return;
    u32 x = p.column * 4;
    from += p.image * fi + p.row * fr + x;
    to += p.image * ti + p.row * tr + (u64)x * written;
    bool whole = x + 4 <= width;
    u32 count = whole ? 4 : width - x;
    // One word a pixel, opaque.
    u32 pixels[4] = {0xff000000u, 0xff000000u, 0xff000000u, 0xff000000u};
#pragma unroll
    for (int c = 0; c < 3; c++) {
        union { T t[4]; typename FourOf<T>::type four; } in;
        const T *plane = from + c * fc;
        if (whole) {
            in.four = *(const typename FourOf<T>::type *)plane;
        } else {
#pragma unroll
            for (int k = 0; k < 4; k++) in.t[k] = plane[k < count ? k : 0];
        }
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float v = __fadd_rn(__fmul_rn(load(&in.t[k]), pick(c, s0, s1, s2, 0.f)), pick(c, b0, b1, b2, 0.f));
            pixels[k] |= __float2uint_rn(fminf(fmaxf(v, 0.f), 255.f)) << (8 * c);
        }
    }
    if (!whole) {
        for (u32 i = 0; i < count * written; i++) {
            u32 k = i / written, c = i % written;
            u32 word = k == 0 ? pixels[0] : k == 1 ? pixels[1] : pixels[2];
            to[i] = (u8)(word >> (8 * c));
        }
    } else if (written == 4) {
        Words w = {{pixels[0], pixels[1], pixels[2], pixels[3]}};
        *(Words *)to = w;
    } else {
        u32 a = pixels[0] & 0xffffffu, b = pixels[1] & 0xffffffu, c = pixels[2] & 0xffffffu, d = pixels[3] & 0xffffffu;
        ((u32 *)to)[0] = a | b << 24;
        ((u32 *)to)[1] = b >> 8 | c << 16;
        ((u32 *)to)[2] = c >> 16 | d << 8;
    }
}

#define BYTES_TO(T)                                                                                                  \
    extern "C" __global__ void fl_bytes_to_##T(                                                                      \
        const u8 *from, T *to, u32 height, u32 width, u32 channels, u64 fi, u64 fr, u64 fp, u64 fc, u64 ti, u64 tr,  \
        u64 tp, u64 tc, float s0, float s1, float s2, float s3, float b0, float b1, float b2, float b3) {            \
        bytes_to<T>(from, to, height, width, channels, fi, fr, fp, fc, ti, tr, tp, tc, s0, s1, s2, s3, b0, b1, b2,   \
                    b3);                                                                                             \
    }

#define TO_BYTES(T)                                                                                                  \
    extern "C" __global__ void fl_##T##_to_bytes(                                                                    \
        const T *from, u8 *to, u32 height, u32 width, u32 channels, u32 written, u64 fi, u64 fr, u64 fp, u64 fc,     \
        u64 ti, u64 tr, u64 tp, u64 tc, float s0, float s1, float s2, float s3, float b0, float b1, float b2,        \
        float b3) {                                                                                                  \
        to_bytes<T>(from, to, height, width, channels, written, fi, fr, fp, fc, ti, tr, tp, tc, s0, s1, s2, s3, b0,  \
                    b1, b2, b3);                                                                                     \
    }

#define PLANES(T)                                                                                                    \
    extern "C" __global__ void fl_bytes_to_##T##_planes(const u8 *from, T *to, u32 height, u32 width, u64 fi,        \
                                                        u64 fr, u64 ti, u64 tr, u64 tc, float s0, float s1,          \
                                                        float s2, float b0, float b1, float b2) {                    \
        bytes_to_planes<T>(from, to, height, width, fi, fr, ti, tr, tc, s0, s1, s2, b0, b1, b2);                     \
    }                                                                                                                \
    extern "C" __global__ void fl_##T##_planes_to_bytes(const T *from, u8 *to, u32 height, u32 width, u32 written,   \
                                                        u64 fi, u64 fr, u64 fc, u64 ti, u64 tr, float s0, float s1,  \
                                                        float s2, float b0, float b1, float b2) {                    \
        planes_to_bytes<T>(from, to, height, width, written, fi, fr, fc, ti, tr, s0, s1, s2, b0, b1, b2);            \
    }

BYTES_TO(f32)
BYTES_TO(f16)
BYTES_TO(bf16)
TO_BYTES(f32)
TO_BYTES(f16)
TO_BYTES(bf16)
PLANES(f32)
PLANES(f16)
PLANES(bf16)
