// Reads from a paged key-value cache.
// A token is 528 bytes (132 floats); PAGE tokens lie together in a page; a table maps the pages of a
// sequence (logical) to where they lie (physical). The table is read on a line of its own, so that its
// cost is reported apart from the cache's.

constexpr int TOKEN_BYTES = 528;
constexpr int TOKEN_FLOATS = TOKEN_BYTES / 4;
constexpr int TOKEN_VECTORS = TOKEN_BYTES / 16;

__device__ float total(float4 v) { return (v.x + v.y) + (v.z + v.w); }

// Sum over the warp, the same in every lane.
__device__ float warp_sum(float sum) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  return sum;
}

// One 4-byte component of one token a lane: a sector (at DRAM, two) for every 4 bytes.
template <int PAGE>
__global__ void kv_component(const float* __restrict__ cache, const int* __restrict__ table, float* __restrict__ out,
                             int component, int tokens) {
  int token = blockIdx.x * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  long long page = table[token / PAGE];
  long long slot = page * PAGE + token % PAGE;
  out[token] = cache[slot * TOKEN_FLOATS + component];
}

// The same components when the tokens lie in order and no table is read: what the dependent load adds
// is the difference in time.
extern "C" __global__ void kv_contiguous(const float* __restrict__ cache, float* __restrict__ out, int component,
                                         int tokens) {
  int token = blockIdx.x * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  out[token] = cache[(long long)token * TOKEN_FLOATS + component];
}

// Sixteen bytes of one token a lane.
template <int PAGE>
__global__ void kv_vector(const float4* __restrict__ cache, const int* __restrict__ table, float* __restrict__ out,
                          int vector, int tokens) {
  int token = blockIdx.x * blockDim.x + threadIdx.x;
  if (token >= tokens) return;
  long long page = table[token / PAGE];
  long long slot = page * PAGE + token % PAGE;
  float4 value = cache[slot * TOKEN_VECTORS + vector];
  out[token] = total(value);
}

// A whole token by one warp: 32 lanes take 16 bytes each, lane 0 the last 16.
template <int PAGE>
__global__ void kv_token(const float4* __restrict__ cache, const int* __restrict__ table, float* __restrict__ out,
                         int tokens) {
  int token = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (token >= tokens) return;
  long long page = table[token / PAGE];
  const float4* vectors = cache + (page * PAGE + token % PAGE) * TOKEN_VECTORS;
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < TOKEN_VECTORS; i += 32) {
    if (i + lane < TOKEN_VECTORS) {
      float4 value = vectors[i + lane];
      sum += total(value);
    }
  }
  sum = warp_sum(sum);
  if (lane == 0) out[token] = sum;
}

// One component of each of the tokens that `picks` lists (top-k sparse attention).
template <int PAGE>
__global__ void kv_topk(const float* __restrict__ cache, const int* __restrict__ table, const int* __restrict__ picks,
                        float* __restrict__ out, int component, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int token = picks[i];
  long long page = table[token / PAGE];
  long long slot = page * PAGE + token % PAGE;
  out[i] = cache[slot * TOKEN_FLOATS + component];
}

// A page staged through shared memory by its CTA, in order, and picked there token by token.
template <int PAGE>
__global__ void kv_staged(const float4* __restrict__ cache, const int* __restrict__ table, float* __restrict__ out) {
  extern __shared__ float4 staged[];
  long long page = table[blockIdx.x];
  const float4* vectors = cache + page * PAGE * TOKEN_VECTORS;
  for (int i = threadIdx.x; i < PAGE * TOKEN_VECTORS; i += blockDim.x) {
    staged[i] = vectors[i];
  }
  __syncthreads();
  for (int token = threadIdx.x; token < PAGE; token += blockDim.x) {
    float sum = 0.0f;
#pragma unroll 3
    for (int i = 0; i < TOKEN_VECTORS; ++i) sum += total(staged[token * TOKEN_VECTORS + i]);
    out[blockIdx.x * PAGE + token] = sum;
  }
}

// Page-major warps: one warp streams one page, 512 bytes at a time, whatever token a byte belongs to.
template <int PAGE>
__global__ void kv_page_major(const float4* __restrict__ cache, const int* __restrict__ table,
                              float* __restrict__ out, int pages) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (warp >= pages) return;
  long long page = table[warp];
  const float4* vectors = cache + page * PAGE * TOKEN_VECTORS;
  float sum = 0.0f;
  for (int i = lane; i < PAGE * TOKEN_VECTORS; i += 32) {
    float4 value = vectors[i];
    sum += total(value);
  }
  sum = warp_sum(sum);
  if (lane == 0) out[warp] = sum;
}

// 512 bytes of the sequence a warp, 16 a lane: warp w starts at byte start + step * w, wherever the page
// boundaries are. `crosses` says whether the read touched two pages.
template <int PAGE>
__global__ void kv_window(const float4* __restrict__ cache, const int* __restrict__ table, float* __restrict__ out,
                          int* __restrict__ crosses, int start, int step, int windows) {
  constexpr int PAGE_VECTORS = PAGE * TOKEN_VECTORS;
  int window = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (window >= windows) return;
  int vector = (start + step * window) / 16 + lane;
  int logical = vector / PAGE_VECTORS;
  long long page = table[logical];
  float4 value = cache[page * PAGE_VECTORS + vector % PAGE_VECTORS];
  float sum = warp_sum(total(value));
  int first = __shfl_sync(0xffffffffu, logical, 0);
  int last = __shfl_sync(0xffffffffu, logical, 31);
  if (lane == 0) {
    out[window] = sum;
    crosses[window] = first != last;
  }
}

// Whole pages of many sequences, one sequence a CTA: the slots behind a sequence's last token are read
// for nothing (tail waste). Sequence s has shortest + extra[s] tokens and row s of the table.
template <int PAGE>
__global__ void kv_tail(const float4* __restrict__ cache, const int* __restrict__ table,
                        const int* __restrict__ extra, float* __restrict__ out, int shortest, int row_pages) {
  __shared__ float partial[32];
  int pages = (shortest + extra[blockIdx.x] + PAGE - 1) / PAGE;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float sum = 0.0f;
  for (int logical = warp; logical < pages; logical += blockDim.x / 32) {
    long long page = table[blockIdx.x * row_pages + logical];
    const float4* vectors = cache + page * PAGE * TOKEN_VECTORS;
#pragma unroll 4
    for (int i = lane; i < PAGE * TOKEN_VECTORS; i += 32) {
      float4 value = vectors[i];
      sum += total(value);
    }
  }
  sum = warp_sum(sum);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float all = 0.0f;
    for (int w = 0; w < blockDim.x / 32; ++w) all += partial[w];
    out[blockIdx.x] = all;
  }
}
