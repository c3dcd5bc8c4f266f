// Records: sorting, merging, text, bits, graphs, trees.

extern "C" {

// Digits of a block's keys counted, the counts digit by digit over all blocks.
__global__ void radix_count(const unsigned* __restrict__ keys, unsigned* __restrict__ counts, int shift, int each) {
  __shared__ unsigned bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int k = 0; k < each; ++k) atomicAdd(bins + (keys[((size_t)blockIdx.x * each + k) * blockDim.x + threadIdx.x] >> shift & 15), 1u);
  __syncthreads();
  if (threadIdx.x < 16) counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

// Keys and values of a block to the places that the scanned counts give, stable, ranks by ballots.
__global__ void radix_scatter(const unsigned* __restrict__ keys, const unsigned* __restrict__ values, const unsigned* __restrict__ offsets, unsigned* __restrict__ keys_out, unsigned* __restrict__ values_out, int shift) {
  __shared__ unsigned part[16][33];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
  unsigned key = keys[i], value = values[i], digit = key >> shift & 15, same = ~0u;
#pragma unroll
  for (int b = 0; b < 4; ++b) {
    unsigned vote = __ballot_sync(~0u, digit >> b & 1);
    same &= digit >> b & 1 ? vote : ~vote;
  }
  unsigned rank = __popc(same & ((1u << lane) - 1));
  if (lane < 16) part[lane][warp] = 0;
  __syncwarp();
  if (rank == 0) part[digit][warp] = __popc(same);
  __syncthreads();
  for (int w = 0; w < warp; ++w) rank += part[digit][w];
  unsigned to = offsets[digit * gridDim.x + blockIdx.x] + rank;
  keys_out[to] = key;
  values_out[to] = value;
}

// Two sorted arrays merged, eight results a thread from where its diagonal crosses.
__global__ void merge_sorted(const int* __restrict__ a, const int* __restrict__ b, int* __restrict__ out, int na, int nb) {
  int diagonal = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (diagonal >= na + nb) return;
  int low = max(diagonal - nb, 0), high = min(diagonal, na);
  while (low < high) {
    int middle = (low + high) >> 1;
    if (a[middle] <= b[diagonal - 1 - middle]) low = middle + 1; else high = middle;
  }
  int i = low, j = diagonal - low;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    if (diagonal + k >= na + nb) return;
    bool first = j >= nb || (i < na && a[i] <= b[j]);
    out[diagonal + k] = first ? a[i++] : b[j++];
  }
}

// Odd-even transposition sort of a block's elements in shared memory.
__global__ void odd_even_sort(int* __restrict__ data) {
  extern __shared__ int s[];
  int n = 2 * blockDim.x, t = threadIdx.x;
  int* p = data + (size_t)blockIdx.x * n;
  s[t] = p[t];
  s[t + blockDim.x] = p[t + blockDim.x];
  for (int k = 0; k < n; ++k) {
    __syncthreads();
    int i = 2 * t + (k & 1);
    if (i + 1 < n) {
      int a = s[i], b = s[i + 1];
      if (a > b) { s[i] = b; s[i + 1] = a; }
    }
  }
  __syncthreads();
  p[t] = s[t];
  p[t + blockDim.x] = s[t + blockDim.x];
}

// Needleman-Wunsch of pairs of 128 letters, a block a pair, diagonals in shared memory.
__global__ void align_pairs(const unsigned char* __restrict__ a, const unsigned char* __restrict__ b, int* __restrict__ scores) {
  __shared__ int line[3][129];
  __shared__ unsigned char sa[128], sb[128];
  int t = threadIdx.x;
  sa[t] = a[blockIdx.x * 128 + t];
  sb[t] = b[blockIdx.x * 128 + t];
  if (t == 0) line[0][0] = 0;
  __syncthreads();
  for (int d = 1; d <= 256; ++d) {
    int *now = line[d % 3], *last = line[(d + 2) % 3], *before = line[(d + 1) % 3];
    for (int i = t; i <= 128; i += 128) {
      int j = d - i;
      if (j >= 0 && j <= 128) {
        int v = -d;
        if (i && j) v = max(before[i - 1] + (sa[i - 1] == sb[j - 1] ? 2 : -1), max(last[i - 1], last[i]) - 1);
        now[i] = v;
      }
    }
    __syncthreads();
  }
  if (t == 0) scores[blockIdx.x] = line[256 % 3][128];
}

// Occurrences of a short pattern: most places fail at once.
__global__ void find_pattern(const char* __restrict__ text, const char* __restrict__ pattern, int* __restrict__ hits, int length, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > n - length) return;
  int k = 0;
  while (k < length && text[i + k] == pattern[k]) ++k;
  if (k == length) atomicAdd(hits, 1);
}

// CRC-32 of records of 64 B, a thread a record, a table of sixteen words.
__constant__ unsigned crc_table[16] = {0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu, 0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu};

__global__ void crc_records(const uint4* __restrict__ records, unsigned* __restrict__ out, int n) {
  __shared__ unsigned table[16];
  if (threadIdx.x < 16) table[threadIdx.x] = crc_table[threadIdx.x];
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned crc = ~0u;
  for (int k = 0; k < 4; ++k) {
    uint4 v = records[(size_t)i * 4 + k];
    unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      crc ^= words[w];
#pragma unroll
      for (int b = 0; b < 8; ++b) crc = table[crc & 15] ^ (crc >> 4);
    }
  }
  out[i] = ~crc;
}

// Sixty-four rounds of rotations and sums over blocks of sixteen words.
__global__ void mix_blocks(const uint4* __restrict__ in, uint4* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned w[16];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    uint4 v = in[(size_t)k * n + i];
    w[4 * k] = v.x; w[4 * k + 1] = v.y; w[4 * k + 2] = v.z; w[4 * k + 3] = v.w;
  }
  unsigned a = 0x6a09e667u, b = 0xbb67ae85u, c = 0x3c6ef372u, d = 0xa54ff53au, e = 0x510e527fu, f = 0x9b05688cu, g = 0x1f83d9abu, h = 0x5be0cd19u;
#pragma unroll
  for (int r = 0; r < 64; ++r) {
    if (r >= 16) {
      unsigned x = w[(r + 1) & 15], y = w[(r + 14) & 15];
      w[r & 15] += (__funnelshift_r(x, x, 7) ^ __funnelshift_r(x, x, 18) ^ x >> 3) + w[(r + 9) & 15] + (__funnelshift_r(y, y, 17) ^ __funnelshift_r(y, y, 19) ^ y >> 10);
    }
    unsigned t = h + (__funnelshift_r(e, e, 6) ^ __funnelshift_r(e, e, 11) ^ __funnelshift_r(e, e, 25)) + ((e & f) ^ (~e & g)) + w[r & 15] + 0x428a2f98u * (r + 1);
    unsigned u = (__funnelshift_r(a, a, 2) ^ __funnelshift_r(a, a, 13) ^ __funnelshift_r(a, a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g; g = f; f = e; e = d + t; d = c; c = b; b = a; a = t + u;
  }
  out[i] = make_uint4(a ^ e, b ^ f, c ^ g, d ^ h);
}

// Runs of equal values: heads, their places within the block by a scan, values and starts written packed.
__global__ void run_heads(const int* __restrict__ in, int* __restrict__ values, int* __restrict__ starts, int* __restrict__ counts) {
  __shared__ int part[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = in[i];
  bool head = threadIdx.x == 0 || in[i - 1] != v;
  unsigned votes = __ballot_sync(~0u, head);
  if (lane == 0) part[warp] = __popc(votes);
  __syncthreads();
  if (warp == 0) {
    int p = lane < blockDim.x / 32 ? part[lane] : 0, s = p;
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
      int t = __shfl_up_sync(~0u, s, d);
      if (lane >= d) s += t;
    }
    part[lane] = s - p;
    if (lane == 31) counts[blockIdx.x] = s;
  }
  __syncthreads();
  if (head) {
    int to = blockIdx.x * blockDim.x + part[warp] + __popc(votes & ((1u << lane) - 1));
    values[to] = v;
    starts[to] = i;
  }
}

// Flags of a byte each to bits, and back.
__global__ void pack_bits(const unsigned char* __restrict__ flags, unsigned* __restrict__ bits, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned vote = __ballot_sync(~0u, i < n && flags[i]);
  if ((threadIdx.x & 31) == 0 && i < n) bits[i >> 5] = vote;
}

__global__ void unpack_bits(const unsigned* __restrict__ bits, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = bits[i >> 5] >> (i & 31) & 1 ? 1.0f : 0.0f;
}

// Sums of runs of equal keys: a segmented scan of a warp, its last lanes add.
__global__ void sum_by_key(const int* __restrict__ keys, const float* __restrict__ values, float* __restrict__ sums, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  int key = i < n ? keys[i] : -1;
  float v = i < n ? values[i] : 0.0f;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    float t = __shfl_up_sync(~0u, v, d);
    int k = __shfl_up_sync(~0u, key, d);
    if (lane >= d && k == key) v += t;
  }
  int next = __shfl_down_sync(~0u, key, 1);
  if (key >= 0 && (lane == 31 || next != key)) atomicAdd(sums + key, v);
}

// Counts by key with lanes of equal keys counted once.
__global__ void count_matched(const int* __restrict__ keys, int* __restrict__ counts, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int key = keys[i];
    unsigned peers = __match_any_sync(__activemask(), key);
    if ((threadIdx.x & 31) == __ffs(peers) - 1) atomicAdd(counts + key, __popc(peers));
  }
}

// A level of breadth-first search from the top: nodes of the level mark neighbours that have none yet.
__global__ void bfs_level(const int* __restrict__ start, const int* __restrict__ edges, const int* __restrict__ level, unsigned char* __restrict__ next, int now, int nodes) {
  int u = blockIdx.x * blockDim.x + threadIdx.x;
  if (u >= nodes || level[u] != now) return;
  for (int k = start[u]; k < start[u + 1]; ++k) {
    int v = edges[k];
    if (level[v] > now) next[v] = 1;
  }
}

// PageRank by pulling along incoming edges, four lanes a node.
__global__ void rank_pull(const int* __restrict__ start, const int* __restrict__ edges, const float* __restrict__ share, float* __restrict__ rank, float damping, float base, int nodes) {
  int t = blockIdx.x * blockDim.x + threadIdx.x, u = t >> 2;
  float s = 0.0f;
  if (u < nodes)
    for (int k = start[u] + (t & 3); k < start[u + 1]; k += 4) s += share[edges[k]];
  s += __shfl_xor_sync(~0u, s, 1);
  s += __shfl_xor_sync(~0u, s, 2);
  if (u < nodes && (t & 3) == 0) rank[u] = base + damping * s;
}

// And by pushing along outgoing ones.
__global__ void rank_push(const int* __restrict__ start, const int* __restrict__ edges, const float* __restrict__ share, float* __restrict__ rank, int nodes) {
  int u = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (u >= nodes) return;
  float s = share[u];
  for (int k = start[u] + lane; k < start[u + 1]; k += 32) atomicAdd(rank + edges[k], s);
}

// Triangles over edges: two sorted lists walked together. Nodes have `each` neighbours.
__global__ void count_triangles(const int* __restrict__ neighbours, const int2* __restrict__ edges, int* __restrict__ counts, int each, int n) {
  int e = blockIdx.x * blockDim.x + threadIdx.x;
  if (e >= n) return;
  int2 uv = edges[e];
  const int *a = neighbours + (size_t)uv.x * each, *b = neighbours + (size_t)uv.y * each;
  int i = 0, j = 0, c = 0;
  while (i < each && j < each) {
    int x = a[i], y = b[j];
    c += x == y;
    i += x <= y;
    j += y <= x;
  }
  counts[e] = c;
}

// Points within a distance, a k-d tree of a full binary heap, the stack in local memory.
__global__ void tree_count(const float2* __restrict__ tree, const float2* __restrict__ queries, int* __restrict__ out, int nodes, float radius, int n) {
  int q = blockIdx.x * blockDim.x + threadIdx.x;
  if (q >= n) return;
  float2 p = queries[q];
  int stack[32], top = 0, count = 0;
  stack[top++] = 0;
  while (top) {
    int at = stack[--top];
    if (at >= nodes) continue;
    float2 v = tree[at];
    int depth = 31 - __clz(at + 1);
    float dx = p.x - v.x, dy = p.y - v.y, d = depth & 1 ? dy : dx;
    count += dx * dx + dy * dy < radius * radius;
    if (d <= radius) stack[top++] = 2 * at + 1;
    if (d >= -radius) stack[top++] = 2 * at + 2;
  }
  out[q] = count;
}

// Columns gathered into rows of a struct of 20 B.
struct Record {
  int id;
  float price;
  int quantity;
  float tax;
  int flags;
};

__global__ void build_records(const int* __restrict__ id, const float* __restrict__ price, const short* __restrict__ quantity, const unsigned char* __restrict__ flags, Record* __restrict__ out, float rate, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Record r;
  r.id = id[i];
  r.price = price[i];
  r.quantity = quantity[i];
  r.tax = r.price * rate;
  r.flags = flags[i];
  out[i] = r;
}
}
