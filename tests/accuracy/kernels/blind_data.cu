// Columns and texts: encodings read back, joins, filters, groups, buckets, fields, distances of words.

extern "C" {

// Codes of two bytes to values of 16 B from a dictionary.
__global__ void decode_dictionary(const ushort2* __restrict__ codes, const uint4* __restrict__ dictionary, uint4* __restrict__ out, int pairs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  ushort2 c = codes[i];
  out[2 * (size_t)i] = __ldg(dictionary + c.x);
  out[2 * (size_t)i + 1] = __ldg(dictionary + c.y);
}

// Runs of equal values written out: 1024 results a block of 256, which finds its runs and stages up to 1024 of their ends.
__global__ void expand_runs(const int* __restrict__ ends, const int* __restrict__ values, int* __restrict__ out, int runs, int n) {
  __shared__ int window[1024];
  __shared__ int bounds[2];
  int base = blockIdx.x * 1024;
  if (threadIdx.x < 2) {
    int wanted = threadIdx.x ? min(base + 1023, n - 1) : base, low = 0, high = runs - 1;
    while (low < high) {
      int middle = (low + high) >> 1;
      if (ends[middle] > wanted) high = middle;
      else low = middle + 1;
    }
    bounds[threadIdx.x] = low;
  }
  __syncthreads();
  int first = bounds[0], many = bounds[1] - first + 1;
  for (int k = threadIdx.x; k < many; k += 256) window[k] = ends[first + k];
  __syncthreads();
  for (int k = threadIdx.x; k < 1024 && base + k < n; k += 256) {
    int low = 0, high = many - 1;
    while (low < high) {
      int middle = (low + high) >> 1;
      if (window[middle] > base + k) high = middle;
      else low = middle + 1;
    }
    out[base + k] = values[first + low];
  }
}

// Frames of 1024 numbers of a few bits each (as many as a frame says) over a base: a frame a block of 128.
__global__ void unpack_frames(const unsigned* __restrict__ packed, const int* __restrict__ bits, const int* __restrict__ offsets, const int* __restrict__ bases, int* __restrict__ out) {
  int width = bits[blockIdx.x], base = bases[blockIdx.x];
  const unsigned* in = packed + offsets[blockIdx.x];
  unsigned mask = (1u << width) - 1;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    int i = k * 128 + threadIdx.x, at = i * width, word = at >> 5;
    unsigned low = in[word], high = in[word + 1];
    out[blockIdx.x * 1024 + i] = base + (int)(__funnelshift_r(low, high, at & 31) & mask);
  }
}

// Texts of different lengths put into another order, a warp a text, a byte a lane at a time.
__global__ void gather_texts(const unsigned char* __restrict__ in, const int* __restrict__ start, const int* __restrict__ order, const int* __restrict__ start_out, unsigned char* __restrict__ out, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (i >= n) return;
  int from = start[order[i]], length = start[order[i] + 1] - from, to = start_out[i];
  for (int k = lane; k < length; k += 32) out[to + k] = in[from + k];
}

__device__ __forceinline__ unsigned bucket_of(unsigned key, unsigned mask) { return key * 2654435761u & mask; }

// Rows of the smaller table into chains of their bucket, the newest first.
__global__ void build_chains(const unsigned* __restrict__ keys, int* __restrict__ head, int* __restrict__ next, unsigned mask, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) next[i] = atomicExch(&head[bucket_of(keys[i], mask)], i);
}

// Rows of the larger table along the chains: how many have the same key, and the sum of their amounts.
__global__ void probe_chains(const unsigned* __restrict__ keys, const int* __restrict__ head, const int* __restrict__ next, const unsigned* __restrict__ built, const int* __restrict__ amounts, int2* __restrict__ out, unsigned mask, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned key = keys[i];
  int many = 0, sum = 0;
  for (int k = head[bucket_of(key, mask)]; k >= 0; k = next[k])
    if (built[k] == key) {
      ++many;
      sum += amounts[k];
    }
  out[i] = make_int2(many, sum);
}

__device__ __forceinline__ unsigned mixed(unsigned h) {
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

// A Bloom filter of blocks of 32 B, a bit in each of the eight words of a key's block: keys put in, and keys asked for.
__global__ void bloom_insert(const unsigned* __restrict__ keys, unsigned* __restrict__ filter, unsigned blocks, int n) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) >> 3, word = threadIdx.x & 7;
  if (i >= n) return;
  unsigned h = mixed(keys[i]), b = mixed(h + word * 0x9e3779b9u) & 31;
  atomicOr(&filter[__umulhi(h, blocks) * 8 + word], 1u << b);
}

__global__ void bloom_query(const unsigned* __restrict__ keys, const uint4* __restrict__ filter, unsigned* __restrict__ found, unsigned blocks, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool all = false;
  if (i < n) {
    unsigned h = mixed(keys[i]), at = __umulhi(h, blocks) * 2;
    uint4 a = filter[at], b = filter[at + 1];
    unsigned words[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    all = true;
#pragma unroll
    for (int k = 0; k < 8; ++k) all &= words[k] >> (mixed(h + k * 0x9e3779b9u) & 31) & 1;
  }
  unsigned votes = __ballot_sync(0xffffffffu, all);
  if ((threadIdx.x & 31) == 0 && i < n) found[i >> 5] = votes;
}

// Sums, counts and largest values by group: a table of the block's own in shared memory, added to the global one at the end.
__global__ void group_sums(const unsigned short* __restrict__ keys, const int* __restrict__ values, unsigned* __restrict__ table, int groups, int n) {
  extern __shared__ unsigned own[];
  for (int g = threadIdx.x; g < 3 * groups; g += blockDim.x) own[g] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    int g = keys[i], v = values[i];
    atomicAdd(&own[g], (unsigned)v);
    atomicAdd(&own[groups + g], 1u);
    atomicMax(&own[2 * groups + g], (unsigned)v);
  }
  __syncthreads();
  for (int g = threadIdx.x; g < groups; g += blockDim.x)
    if (own[groups + g]) {
      atomicAdd(&table[g], own[g]);
      atomicAdd(&table[groups + g], own[groups + g]);
      atomicMax(&table[2 * groups + g], own[2 * groups + g]);
    }
}

// Bucket of each key among 255 splitters, by a search without branches, and how many of a block's keys go to each.
__global__ void choose_buckets(const float* __restrict__ keys, const float* __restrict__ splitters, unsigned char* __restrict__ bucket, int* __restrict__ counts, int each, int n) {
  __shared__ float tree[255];
  __shared__ int own[256];
  int t = threadIdx.x;
  if (t < 255) tree[t] = splitters[t];
  if (t < 256) own[t] = 0;
  __syncthreads();
  for (int k = 0; k < each; ++k) {
    int i = (blockIdx.x * each + k) * blockDim.x + t;
    if (i >= n) break;
    float key = keys[i];
    int b = 0;
#pragma unroll
    for (int d = 128; d; d >>= 1) b += key >= tree[b + d - 1] ? d : 0;
    bucket[i] = b;
    atomicAdd(&own[b], 1);
  }
  __syncthreads();
  if (t < 256) counts[t * gridDim.x + blockIdx.x] = own[t];
}

// Pages of 2048 differences of two bytes back to numbers: eight a thread, the rest by a scan of the block of 256.
__global__ void decode_deltas(const int4* __restrict__ deltas, const int* __restrict__ first, int4* __restrict__ out) {
  __shared__ int totals[8];
  int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  int4 in = deltas[(size_t)blockIdx.x * 256 + t];
  int words[4] = {in.x, in.y, in.z, in.w}, v[8], s = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    v[2 * k] = s += (short)words[k];
    v[2 * k + 1] = s += words[k] >> 16;
  }
  int before = s;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    int o = __shfl_up_sync(0xffffffffu, before, d);
    if (lane >= d) before += o;
  }
  if (lane == 31) totals[warp] = before;
  __syncthreads();
  int base = first[blockIdx.x] + before - s;
  for (int w = 0; w < warp; ++w) base += totals[w];
  int4* to = out + ((size_t)blockIdx.x * 256 + t) * 2;
  to[0] = make_int4(base + v[0], base + v[1], base + v[2], base + v[3]);
  to[1] = make_int4(base + v[4], base + v[5], base + v[6], base + v[7]);
}

// A bit for each of the four bytes of a word that equals `c`.
__device__ __forceinline__ unsigned equal_bytes(unsigned word, unsigned c) {
  unsigned m = __vcmpeq4(word, c * 0x01010101u) & 0x08040201u;
  return (m | m >> 8 | m >> 16 | m >> 24) & 15u;
}

// Separators of a text outside of quotation marks, 16 B a thread: {marks, separators if the block begins outside, if inside}.
__global__ void count_fields(const uint4* __restrict__ text, int* __restrict__ out) {
  __shared__ unsigned parities;
  __shared__ int sums[3];
  int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  if (t == 0) parities = 0;
  if (t < 3) sums[t] = 0;
  __syncthreads();
  uint4 in = text[(size_t)blockIdx.x * blockDim.x + t];
  unsigned words[4] = {in.x, in.y, in.z, in.w}, marks = 0, fields = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    marks |= equal_bytes(words[k], '"') << 4 * k;
    fields |= (equal_bytes(words[k], ',') | equal_bytes(words[k], '\n')) << 4 * k;
  }
  unsigned odd = __ballot_sync(0xffffffffu, __popc(marks) & 1);
  if (lane == 0 && __popc(odd) & 1) atomicOr(&parities, 1u << warp);
  __syncthreads();
  unsigned inside = marks ^ marks << 1;
  inside ^= inside << 2;
  inside ^= inside << 4;
  inside ^= inside << 8;
  if ((__popc(odd & ((1u << lane) - 1)) + __popc(parities & ((1u << warp) - 1))) & 1) inside = ~inside;
  int all = __reduce_add_sync(0xffffffffu, __popc(marks)), outer = __reduce_add_sync(0xffffffffu, __popc(fields & ~inside));
  int inner = __reduce_add_sync(0xffffffffu, __popc(fields & inside));
  if (lane == 0) {
    atomicAdd(&sums[0], all);
    atomicAdd(&sums[1], outer);
    atomicAdd(&sums[2], inner);
  }
  __syncthreads();
  if (t < 3) out[blockIdx.x * 3 + t] = sums[t];
}

// Whether characters of a UTF-8 text are well formed: 16 B a thread, which reads on where its last character goes on.
__global__ void validate_utf8(const uint4* __restrict__ text, int* __restrict__ faults, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned char* bytes = (const unsigned char*)text;
  int bad = 0;
  if (16 * i < n) {
    uint4 in = text[i];
    unsigned words[4] = {in.x, in.y, in.z, in.w}, low = 0x80, high = 0xbf;
    int wanted = 0;
    bool begun = i == 0;
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      unsigned c = words[k >> 2] >> 8 * (k & 3) & 255;
      if (wanted) {
        bad |= c < low || c > high;
        low = 0x80;
        high = 0xbf;
        --wanted;
      } else if (c >= 0x80) {
        if (c >= 0xc2 && c <= 0xdf) wanted = 1;
        else if (c >= 0xe0 && c <= 0xef) {
          wanted = 2;
          low = c == 0xe0 ? 0xa0 : 0x80;
          high = c == 0xed ? 0x9f : 0xbf;
        } else if (c >= 0xf0 && c <= 0xf4) {
          wanted = 3;
          low = c == 0xf0 ? 0x90 : 0x80;
          high = c == 0xf4 ? 0x8f : 0xbf;
        } else
          bad |= begun || c >= 0xc0 || k >= 3;
      }
      begun |= c < 0x80 || c >= 0xc0;
    }
    for (int at = 16 * i + 16; wanted; --wanted, ++at) {
      unsigned c = at < n ? bytes[at] : 0;
      bad |= c < low || c > high;
      low = 0x80;
      high = 0xbf;
    }
  }
  unsigned votes = __ballot_sync(0xffffffffu, bad);
  if ((threadIdx.x & 31) == 0 && votes) atomicAdd(faults, __popc(votes));
}

// Records of eight numbers of seven bits a byte, a record a thread.
__global__ void decode_varints(const unsigned char* __restrict__ in, const int* __restrict__ start, uint4* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned char* p = in + start[i];
  unsigned v[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    unsigned c = *p++;
    v[k] = c & 127;
    for (int shift = 7; c & 128; shift += 7) {
      c = *p++;
      v[k] |= (c & 127) << shift;
    }
  }
  out[2 * (size_t)i] = make_uint4(v[0], v[1], v[2], v[3]);
  out[2 * (size_t)i + 1] = make_uint4(v[4], v[5], v[6], v[7]);
}

// Edits between a pattern of up to 32 letters and many texts of 64, a text a thread: a column of the table in two words (Myers).
__global__ void edit_distances(const uint4* __restrict__ texts, const unsigned char* __restrict__ pattern, unsigned char* __restrict__ out, int length, int n) {
  __shared__ unsigned where[256];
  for (int c = threadIdx.x; c < 256; c += blockDim.x) {
    unsigned bits = 0;
    for (int k = 0; k < length; ++k) bits |= (unsigned)(pattern[k] == c) << k;
    where[c] = bits;
  }
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned plus = 0xffffffffu, minus = 0;
  int score = length;
#pragma unroll
  for (int b = 0; b < 4; ++b) {
    uint4 in = texts[(size_t)i * 4 + b];
    unsigned words[4] = {in.x, in.y, in.z, in.w};
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      unsigned eq = where[words[k >> 2] >> 8 * (k & 3) & 255], xv = eq | minus, xh = (((eq & plus) + plus) ^ plus) | eq;
      unsigned ph = minus | ~(xh | plus), mh = plus & xh;
      score += (int)(ph >> (length - 1) & 1) - (int)(mh >> (length - 1) & 1);
      ph = ph << 1 | 1;
      mh <<= 1;
      plus = mh | ~(xv | ph);
      minus = ph & xv;
    }
  }
  out[i] = score;
}
}
