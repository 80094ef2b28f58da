// What kernels of pictures share: types of numbers, the pixel of a thread, four pixels at once.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef float f32;

struct f16 { u16 bits; };
struct bf16 { u16 bits; };

__device__ __forceinline__ void store(float *to, float v) { *to = v; }

__device__ __forceinline__ void store(f16 *to, float v) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
    to->bits = bits;
}

// Old architectures have no instruction for it.
__device__ __forceinline__ void store(bf16 *to, float v) {
    u32 bits = __float_as_uint(v);
    u32 even = 0x7fffu + ((bits >> 16) & 1u);
    to->bits = v != v ? (u16)0x7fff : (u16)((bits + even) >> 16);
}

__device__ __forceinline__ float load(const u8 *from) { return (float)*from; }

__device__ __forceinline__ float load(const float *from) { return *from; }

__device__ __forceinline__ float load(const f16 *from) {
    float v;
    asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(from->bits));
    return v;
}

__device__ __forceinline__ float load(const bf16 *from) { return __uint_as_float((u32)from->bits << 16); }

// One block handles up to blockDim.x pixels of one row of one image.
struct Pixel { u64 image, row; u32 column; bool inside; };

__device__ __forceinline__ Pixel pixel(u32 height, u32 width) {
    u32 tiles = (width + blockDim.x - 1) / blockDim.x;
    u32 line = blockIdx.x / tiles;
    u32 column = (blockIdx.x - line * tiles) * blockDim.x + threadIdx.x;
    Pixel p = { line / height, line % height, column, column < width };
    return p;
}

struct __align__(16) Four32 { float v[4]; };
struct __align__(8) Four16 { u16 v[4]; };
struct __align__(4) Four8 { u8 v[4]; };
struct __align__(16) Words { u32 v[4]; };

template <typename T> struct FourOf { typedef Four16 type; };
template <> struct FourOf<float> { typedef Four32 type; };
template <> struct FourOf<u8> { typedef Four8 type; };

__device__ __forceinline__ u32 byte_of(const u32 *words, int i) { return (words[i / 4] >> (8 * (i % 4))) & 255u; }
