// Kernels that tests and benchmarks need: a delay, a checksum, a pattern. Twins: src/kernels/twin.rs.

typedef unsigned char u8;
typedef unsigned long long u64;

// SplitMix64 (Steele, Lea and Flood 2014).
__device__ __forceinline__ u64 mix(u64 z) {
    z += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

__device__ __forceinline__ u64 now() {
    u64 t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

extern "C" __global__ void fl_spin(u64 nanoseconds) {
    u64 start = now();
    while (now() - start < nanoseconds) {
    }
}

// Word i of 8 bytes, little end first, zeros after the end; any alignment.
__device__ __forceinline__ u64 word(const u8 *data, u64 bytes, u64 i) {
    u64 at = i * 8, w = 0;
    if (((u64)data & 7) == 0 && at + 8 <= bytes) return *(const u64 *)(data + at);
    for (int b = 0; b < 8 && at + b < bytes; b++) w |= (u64)data[at + b] << (8 * b);
    return w;
}

// Adds to *sum the sum of mix(word ^ mix(index)): equal bytes give equal sums, in whatever order blocks run.
extern "C" __global__ void fl_checksum(const u8 *data, u64 bytes, u64 *sum) {
    __shared__ u64 part[256];
    u64 words = (bytes + 7) / 8, mine = 0, step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) mine += mix(word(data, bytes, i) ^ mix(i));
    part[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(sum, part[0]);
}

// Word i becomes mix(seed + i), cut at the end.
extern "C" __global__ void fl_pattern(u8 *data, u64 bytes, u64 seed) {
    u64 words = (bytes + 7) / 8, step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) {
        u64 w = mix(seed + i), at = i * 8;
        if (((u64)data & 7) == 0 && at + 8 <= bytes) {
            *(u64 *)(data + at) = w;
        } else {
            for (int b = 0; b < 8 && at + b < bytes; b++) data[at + b] = (u8)(w >> (8 * b));
        }
    }
}
