// Lanes of parted warps that meet in shuffles, votes and barriers: what the counter of executed instructions counts.

// masks of W lanes
template <int W> __device__ int tile(int v, int lane) {
  unsigned mask = (W == 32 ? ~0u : (1u << W) - 1) << (lane & ~(W - 1)), votes = __ballot_sync(mask, v & 1);
  for (int d = W / 2; d; d >>= 1) v += __shfl_xor_sync(mask, v, d);
  return __popc(votes) + 1000 * v;
}
extern "C" {
// shuffles at two places
__global__ void two_places(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  if (v & 1) { v *= 3; v += __shfl_xor_sync(~0u, v, 1); out[i] = v; }
  else { v *= 5; v -= __shfl_xor_sync(~0u, v, 1); out[i] = v + 7; }
}
// at three places
__global__ void three_places(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i], r = v % 3;
  if (r == 0) { v *= 3; v += __shfl_xor_sync(~0u, v, 1); out[i] = v; }
  else if (r == 1) { v *= 5; v -= __shfl_xor_sync(~0u, v, 1); out[i] = v + 7; }
  else { v *= 11; v ^= __shfl_xor_sync(~0u, v, 1); out[i] = v + 9; }
}
// one place, reached by two calls
__device__ __noinline__ int shared_place(int v, int k) {
  v = v * k + 1;
  return v + __shfl_xor_sync(~0u, v, 1);
}
__global__ void one_place(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  if (v & 1) out[i] = shared_place(v, n) * 3;
  else out[i] = shared_place(v + 5, n + 1) + 7;
}
// shuffles in loops of two branches
__global__ void looped(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  if (v & 1) {
    v *= 3;
    #pragma unroll 1
    for (int k = 0; k < n; k++) v += __shfl_xor_sync(~0u, v, 1);
    out[i] = v;
  } else {
    v *= 5;
    #pragma unroll 1
    for (int k = 0; k < n; k++) v -= __shfl_xor_sync(~0u, v, 2);
    out[i] = v + 7;
  }
}
// half of the lanes have exited; the others at two places
__global__ void half(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  if (threadIdx.x % 32 >= 16) return;
  if (v & 1) { v *= 3; v += __shfl_xor_sync(0xffffu, v, 1); out[i] = v; }
  else { v *= 5; v -= __shfl_xor_sync(0xffffu, v, 1); out[i] = v + 7; }
}
__global__ void tiles8(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = tile<8>(in[i], i & 31);
}
__global__ void tiles16(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = tile<16>(in[i], i & 31);
}
__global__ void tiles4(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = tile<4>(in[i], i & 31);
}
// masks of eight lanes, at two places
__global__ void tiles_two_places(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  unsigned mask = 255u << (i & 24);
  if (v & 1) { v *= 3; v += __shfl_xor_sync(mask, v, 1); out[i] = v; }
  else { v *= 5; v -= __shfl_xor_sync(mask, v, 1); out[i] = v + 7; }
}
// odd and even lanes vote apart, and meet in __syncwarp
__global__ void votes_apart(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i], lane = i & 31;
  if (lane & 1) v += __ballot_sync(0xaaaaaaaau, v & 4);
  else v ^= __ballot_sync(0x55555555u, v & 2);
  __syncwarp();
  out[i] = v;
}
// __syncwarp at two places
__global__ void syncwarps(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  if (v & 1) { out[i] = v; __syncwarp(); out[i] += 3; }
  else { out[i] = v + 7; __syncwarp(); out[i] *= 5; }
}
// votes and sums of the whole warp at two places
__global__ void votes_together(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  if (v & 1) out[i] = __ballot_sync(~0u, v & 2) + v;
  else out[i] = __ballot_sync(~0u, v & 4) - v;
}
__global__ void reduce_apart(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  if (v & 1) out[i] = __reduce_add_sync(~0u, v) + v;
  else out[i] = __reduce_add_sync(~0u, v) - 3 * v;
}
// the first 16 lanes of a block of 16
__global__ void short_block(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  if (threadIdx.x < 16) { for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(~0u, v, d); }
  out[i] = v;
}
static __device__ __forceinline__ void cases(int* out, const int* in, int n, int i, int v) {
  int s = v;
  switch (v % 7) {
    case 0: s = v * 3 + 1; break;
    case 1: s = v ^ 0x55; out[i] = 4; break;
    case 2: s = v + n * 7; for (int j = 0; j < n; j++) s = s * 3 + j; break;
    case 3: s = v / (n + 2); break;
    case 4: s = __popc(v) * n; break;
    case 5: s = in[(i + 5) & 1023]; break;
    default: s = -v;
  }
  out[i] = s + out[i];
}
// an indirect branch (BRX) with several targets a warp
__global__ void switched(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  cases(out, in, n, i, in[i]);
}
// the same, one target a warp
__global__ void switched_uniform(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  cases(out, in, n, i, in[i / 32 * 32]);
}
// function pointers: an indirect call with several targets
__device__ int f0(int v) { return v * 3 + 1; }
__device__ int f1(int v) { return v ^ 0x77; }
__device__ int f2(int v) { return v - 9; }
__device__ int (*table[3])(int) = {f0, f1, f2};
__global__ void pointers(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  out[i] = table[v % 3](v);
}
// lanes have exited; the full mask is asked for
__global__ void exited(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  if (threadIdx.x % 32 >= 16) return;
  if (n) { v += __shfl_xor_sync(~0u, v, 1); }
  if (v & 1) { v *= 3; v += __shfl_xor_sync(~0u, v, 1); out[i] = v; }
  else { v *= 5; v -= __shfl_xor_sync(~0u, v, 1); out[i] = v + 7; }
}
// three splits wait for each other at one __syncwarp, and call one function from three places
__global__ void three_waits(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i], lane = i & 31, r = lane % 3;
  if (r == 0) v += __ballot_sync(0x49249249u, v & 4);
  else if (r == 1) v ^= __ballot_sync(0x92492492u, v & 2);
  else v -= __ballot_sync(0x24924924u, v & 1);
  __syncwarp();
  out[i] = v;
}
__global__ void three_calls(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i], r = v % 3;
  if (r == 0) out[i] = shared_place(v, n) * 3;
  else if (r == 1) out[i] = shared_place(v + 5, n + 1) + 7;
  else out[i] = shared_place(v + 9, n + 2) - 7;
}
// loops of shuffles in one branch, one shuffle in the other
__global__ void one_looped(int* out, const int* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
  if (v & 1) {
    v *= 3;
    #pragma unroll 1
    for (int k = 0; k < n - 2; k++) v += __shfl_xor_sync(~0u, v, 1);
    out[i] = v;
  } else { v *= 5; v -= __shfl_xor_sync(~0u, v, 2); out[i] = v + 7; }
}
}
