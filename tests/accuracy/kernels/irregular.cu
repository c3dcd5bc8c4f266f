// Addresses from tables: sparse products, hashing, histograms, graphs, gathers and scatters.

extern "C" {

__global__ void spmv_scalar(const int* __restrict__ start, const int* __restrict__ column, const float* __restrict__ value, const float* __restrict__ x, float* __restrict__ y, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float s = 0.0f;
  for (int k = start[row]; k < start[row + 1]; ++k) s += value[k] * x[column[k]];
  y[row] = s;
}

__global__ void spmv_vector(const int* __restrict__ start, const int* __restrict__ column, const float* __restrict__ value, const float* __restrict__ x, float* __restrict__ y, int rows) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (row >= rows) return;
  float s = 0.0f;
  for (int k = start[row] + lane; k < start[row + 1]; k += 32) s += value[k] * x[column[k]];
  for (int d = 16; d; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
  if (lane == 0) y[row] = s;
}

// ELLPACK: column-major, padded to `width` entries.
__global__ void spmv_ell(const int* __restrict__ column, const float* __restrict__ value, const float* __restrict__ x, float* __restrict__ y, int width, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float s = 0.0f;
  for (int k = 0; k < width; ++k) s += value[k * rows + row] * x[column[k * rows + row]];
  y[row] = s;
}

__global__ void histogram_global(const int* __restrict__ in, unsigned* __restrict__ bins, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(bins + in[i], 1u);
}

// Bytes of a text, 16 a load, counted in a histogram of the warp's own.
__global__ void byte_histogram(const uint4* __restrict__ text, unsigned* __restrict__ bins, int n) {
  __shared__ unsigned own[8][256];
  for (int i = threadIdx.x; i < 2048; i += blockDim.x) own[i >> 8][i & 255] = 0;
  __syncthreads();
  unsigned* mine = own[threadIdx.x >> 5];
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    uint4 v = text[i];
    unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int w = 0; w < 4; ++w)
#pragma unroll
      for (int b = 0; b < 4; ++b) atomicAdd(mine + ((words[w] >> (8 * b)) & 255), 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    unsigned s = 0;
    for (int w = 0; w < 8; ++w) s += own[w][i];
    atomicAdd(bins + i, s);
  }
}

// Open addressing, linear probing; 0 is an empty slot.
__global__ void hash_probe(const unsigned* __restrict__ table, const unsigned* __restrict__ keys, unsigned* __restrict__ found, int bits, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned key = keys[i], at = (key * 2654435761u) >> (32 - bits), slot = table[at], steps = 0;
  while (slot != 0 && slot != key) {
    at = (at + 1) & ((1u << bits) - 1);
    slot = table[at];
    ++steps;
  }
  found[i] = steps;
}

__global__ void pointer_jump(const int* __restrict__ next, int* __restrict__ out, int jumps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int at = i;
  for (int k = 0; k < jumps; ++k) at = next[at];
  out[i] = at;
}

__global__ void binary_search(const int* __restrict__ table, const int* __restrict__ queries, int* __restrict__ out, int size, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int q = queries[i], low = 0, high = size;
  while (low < high) {
    int middle = (low + high) >> 1;
    if (table[middle] < q) low = middle + 1; else high = middle;
  }
  out[i] = low;
}

// A warp a token; rows of `dim` float4s.
__global__ void embedding(const float4* __restrict__ table, const int* __restrict__ ids, float4* __restrict__ out, int dim, int n) {
  int token = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (token >= n) return;
  const float4* row = table + (size_t)ids[token] * dim;
  for (int k = lane; k < dim; k += 32) out[(size_t)token * dim + k] = row[k];
}

// Bags of `bag` rows summed; a block of `dim` threads a bag.
__global__ void embedding_bag(const float* __restrict__ table, const int* __restrict__ ids, float* __restrict__ out, int bag, int dim) {
  float s = 0.0f;
#pragma unroll 4
  for (int k = 0; k < bag; ++k) s += table[(size_t)ids[blockIdx.x * bag + k] * dim + threadIdx.x];
  out[(size_t)blockIdx.x * dim + threadIdx.x] = s;
}

// Rows added to rows elsewhere: reductions at L2, 32 words in a line.
__global__ void scatter_add(const float* __restrict__ in, const int* __restrict__ ids, float* __restrict__ out, int dim, int n) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (row >= n) return;
  float* to = out + (size_t)ids[row] * dim;
  for (int k = lane; k < dim; k += 32) atomicAdd(to + k, in[(size_t)row * dim + k]);
}

// Rows put elsewhere: whole sectors to random places.
__global__ void scatter_rows(const float4* __restrict__ in, const int* __restrict__ ids, float4* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, row = i >> 3, k = i & 7;
  if (row < n) out[(size_t)ids[row] * 8 + k] = in[i];
}

// Sequences of different lengths into a padded batch.
__global__ void ragged_to_padded(const float* __restrict__ in, const int* __restrict__ start, float* __restrict__ out, int pad) {
  int first = start[blockIdx.x], length = start[blockIdx.x + 1] - first;
  for (int i = threadIdx.x; i < pad; i += blockDim.x) out[(size_t)blockIdx.x * pad + i] = i < length ? in[first + i] : 0.0f;
}

// Marked elements moved to the front of each block's part.
__global__ void compact_block(const int* __restrict__ in, int* __restrict__ out, int* __restrict__ counts, int threshold) {
  __shared__ int part[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = in[i];
  bool keep = v < threshold;
  unsigned votes = __ballot_sync(~0u, keep);
  if (lane == 0) part[warp] = __popc(votes);
  __syncthreads();
  int before = 0, all = 0;
  for (int w = 0; w < (blockDim.x >> 5); ++w) { before += w < warp ? part[w] : 0; all += part[w]; }
  if (keep) out[blockIdx.x * blockDim.x + before + __popc(votes & ((1u << lane) - 1))] = v;
  if (threadIdx.x == 0) counts[blockIdx.x] = all;
}

// Edges relax their targets.
__global__ void relax(const int* __restrict__ from, const int* __restrict__ to, const int* __restrict__ weight, const int* __restrict__ distance, int* __restrict__ out, int edges) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e < edges) atomicMin(out + to[e], distance[from[e]] + weight[e]);
}

// A counter a warp takes tickets from; the ticket is used.
__global__ void tickets(unsigned* __restrict__ counter, unsigned* __restrict__ out, int counters) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  unsigned t = 0;
  if (lane == 0) t = atomicAdd(counter + (i >> 5) % counters * 32, 1u);
  out[i] = __shfl_sync(~0u, t, 0);
}

// Look-ups in a table of 4096 words in shared memory, by random indices.
__global__ void table_shared(const float* __restrict__ table, const int* __restrict__ index, float* __restrict__ out, int each) {
  __shared__ float t[4096];
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) t[i] = table[i];
  __syncthreads();
  for (int k = 0; k < each; ++k) {
    int i = (blockIdx.x * each + k) * blockDim.x + threadIdx.x;
    out[i] = t[index[i]];
  }
}
}
