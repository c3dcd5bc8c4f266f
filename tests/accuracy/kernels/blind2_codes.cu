// Codes, digests and records: ciphers, hashes, transforms over integers, descriptors, bit planes, walks, dates.

extern "C" {

__device__ __forceinline__ unsigned turned_left(unsigned v, int k) { return __funnelshift_l(v, v, k); }

__device__ __forceinline__ void quarter(unsigned& a, unsigned& b, unsigned& c, unsigned& d) {
  a += b;
  d = turned_left(d ^ a, 16);
  c += d;
  b = turned_left(b ^ c, 12);
  a += b;
  d = turned_left(d ^ a, 8);
  c += d;
  b = turned_left(b ^ c, 7);
}

// A text and the key stream of ChaCha20, 64 B a thread.
__global__ void chacha_xor(const uint4* __restrict__ in, uint4* __restrict__ out, const uint4* __restrict__ key, unsigned counter, unsigned nonce0, unsigned nonce1, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint4 low = key[0], high = key[1];
  unsigned first[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u, low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w, counter + i, 0, nonce0, nonce1}, v[16];
#pragma unroll
  for (int k = 0; k < 16; ++k) v[k] = first[k];
#pragma unroll 1
  for (int round = 0; round < 10; ++round) {
    quarter(v[0], v[4], v[8], v[12]);
    quarter(v[1], v[5], v[9], v[13]);
    quarter(v[2], v[6], v[10], v[14]);
    quarter(v[3], v[7], v[11], v[15]);
    quarter(v[0], v[5], v[10], v[15]);
    quarter(v[1], v[6], v[11], v[12]);
    quarter(v[2], v[7], v[8], v[13]);
    quarter(v[3], v[4], v[9], v[14]);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    uint4 word = in[4 * (size_t)i + k];
    word.x ^= v[4 * k] + first[4 * k];
    word.y ^= v[4 * k + 1] + first[4 * k + 1];
    word.z ^= v[4 * k + 2] + first[4 * k + 2];
    word.w ^= v[4 * k + 3] + first[4 * k + 3];
    out[4 * (size_t)i + k] = word;
  }
}

__constant__ unsigned sha_rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// SHA-256 of messages of 52 B, big-endian words in planes: one block of the digest a thread.
__global__ void sha256_short(const unsigned* __restrict__ in, unsigned* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned w[16];
#pragma unroll
  for (int k = 0; k < 13; ++k) w[k] = in[(size_t)k * n + i];
  w[13] = 0x80000000u;
  w[14] = 0;
  w[15] = 52 * 8;
  unsigned s[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au, 0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
  unsigned a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
#pragma unroll
  for (int k = 0; k < 64; ++k) {
    if (k >= 16) {
      unsigned x = w[(k - 15) & 15], y = w[(k - 2) & 15];
      w[k & 15] += w[(k - 7) & 15] + (turned_left(x, 25) ^ turned_left(x, 14) ^ x >> 3) + (turned_left(y, 15) ^ turned_left(y, 13) ^ y >> 10);
    }
    unsigned t = h + (turned_left(e, 26) ^ turned_left(e, 21) ^ turned_left(e, 7)) + (e & f ^ ~e & g) + sha_rounds[k] + w[k & 15];
    unsigned u = (turned_left(a, 30) ^ turned_left(a, 19) ^ turned_left(a, 10)) + (a & b ^ a & c ^ b & c);
    h = g;
    g = f;
    f = e;
    e = d + t;
    d = c;
    c = b;
    b = a;
    a = t + u;
  }
  unsigned v[8] = {a, b, c, d, e, f, g, h};
#pragma unroll
  for (int k = 0; k < 8; ++k) out[(size_t)k * n + i] = s[k] + v[k];
}

__device__ __forceinline__ unsigned letter64(unsigned v) { return v < 26 ? 'A' + v : v < 52 ? 'a' + v - 26 : v < 62 ? '0' + v - 52 : v == 62 ? '+' : '/'; }

// Bytes to letters of six bits, 12 B to 16 B a thread, two letters at a time from a table in shared memory.
__global__ void base64_encode(const unsigned* __restrict__ in, uint4* __restrict__ out, int n) {
  __shared__ unsigned short pairs[4096];
  for (int k = threadIdx.x; k < 4096; k += blockDim.x) pairs[k] = letter64(k >> 6) | letter64(k & 63) << 8;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    unsigned a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];
    unsigned three[4] = {__byte_perm(a, 0, 0x4012), __byte_perm(a, b, 0x0345) & 0xffffffu, __byte_perm(b, c, 0x0234) & 0xffffffu, __byte_perm(c, 0, 0x4123)}, four[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) four[k] = pairs[three[k] >> 12] | (unsigned)pairs[three[k] & 4095] << 16;
    out[i] = make_uint4(four[0], four[1], four[2], four[3]);
  }
}

// Nearest and second nearest of many descriptors of 256 bits by the bits that differ, a query a thread of 64.
__global__ void match_descriptors(const uint4* __restrict__ queries, const uint4* __restrict__ known, int4* __restrict__ out, int many, int n) {
  __shared__ uint4 tile[128];
  int i = blockIdx.x * 64 + threadIdx.x, best = 1 << 30, second = 1 << 30, place = -1, from = min(i, n - 1);
  uint4 a = queries[2 * from], b = queries[2 * from + 1];
  for (int base = 0; base < many; base += 64) {
    int here = min(64, many - base);
    __syncthreads();
    for (int k = threadIdx.x; k < 2 * here; k += 64) tile[k] = known[2 * base + k];
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < here; ++k) {
      uint4 c = tile[2 * k], d = tile[2 * k + 1];
      int apart = __popc(a.x ^ c.x) + __popc(a.y ^ c.y) + __popc(a.z ^ c.z) + __popc(a.w ^ c.w) + __popc(b.x ^ d.x) + __popc(b.y ^ d.y) + __popc(b.z ^ d.z) + __popc(b.w ^ d.w);
      second = min(second, max(apart, best));
      place = apart < best ? base + k : place;
      best = min(best, apart);
    }
  }
  if (i < n) out[i] = make_int4(place, best, second, 10 * best < 8 * second);
}

// Symbols of a prefix code of at most eight bits: slots of 32 B with 40 symbols, a slot a thread.
__global__ void decode_prefixes(const unsigned* __restrict__ in, const unsigned short* __restrict__ codes, unsigned* __restrict__ out, int n) {
  __shared__ unsigned short table[256];
  for (int k = threadIdx.x; k < 256; k += blockDim.x) table[k] = codes[k];
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned* words = in + (size_t)i * 8;
  unsigned long long bits = (unsigned long long)words[0] << 32 | words[1];
  int have = 64, next = 2;
  for (int k = 0; k < 10; ++k) {
    unsigned four = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      unsigned entry = table[bits >> 56];
      four |= (entry >> 4) << 8 * j;
      bits <<= entry & 15;
      have -= entry & 15;
      if (have < 32 && next < 8) {
        bits |= (unsigned long long)words[next++] << (32 - have);
        have += 32;
      }
    }
    out[(size_t)i * 10 + k] = four;
  }
}

// Blocks of 1024 words to their 32 planes of bits: a plane of a warp's words at a time, collected in shared memory.
__global__ void split_planes(const unsigned* __restrict__ in, unsigned* __restrict__ out) {
  __shared__ unsigned planes[32][33];
  int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  unsigned v = in[(size_t)blockIdx.x * 1024 + t], own = 0;
#pragma unroll
  for (int k = 0; k < 32; ++k) {
    unsigned votes = __ballot_sync(0xffffffffu, v >> k & 1);
    if (lane == k) own = votes;
  }
  planes[lane][warp] = own;
  __syncthreads();
  out[(size_t)blockIdx.x * 1024 + t] = planes[warp][lane];
}

// Transforms of 1024 numbers modulo a prime, one a block of 256: ten stages in shared memory, factors with their quotients.
__global__ void modular_transform(const uint4* __restrict__ in, const uint2* __restrict__ factors, uint4* __restrict__ out) {
  __shared__ unsigned v[1024];
  const unsigned p = 998244353u;
  int t = threadIdx.x;
  ((uint4*)v)[t] = in[(size_t)blockIdx.x * 256 + t];
  __syncthreads();
#pragma unroll
  for (int half = 512; half; half >>= 1) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      int b = k * 256 + t, j = b & (half - 1), at = 2 * b - j;
      uint2 w = factors[half + j];
      unsigned x = v[at], y = v[at + half], sum = x + y, gap = x - y + p;
      sum = min(sum, sum - p);
      unsigned r = gap * w.x - __umulhi(gap, w.y) * p;
      v[at] = sum;
      v[at + half] = min(r, r - p);
    }
    __syncthreads();
  }
  out[(size_t)blockIdx.x * 256 + t] = ((uint4*)v)[t];
}

// Walks at random through a graph, a walk a thread, steps of all walks side by side.
__global__ void random_walks(const int* __restrict__ start, const int* __restrict__ column, int* __restrict__ path, int nodes, int steps, unsigned seed, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned state = (i + 1) * 0x9e3779b9u ^ seed;
  int at = __umulhi(state, nodes);
  for (int s = 0; s < steps; ++s) {
    path[(size_t)s * n + i] = at;
    int first = start[at], many = start[at + 1] - first;
    state = state * 1664525u + 1013904223u;
    if (many) at = column[first + __umulhi(state, many)];
  }
}

// Days since 1970 to year, month and day of the month, and day of the week, in a word.
__global__ void calendar_dates(const int4* __restrict__ days, uint4* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int4 in = days[i];
  int each[4] = {in.x, in.y, in.z, in.w};
  unsigned word[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    unsigned day = each[k] + 719468, era = day / 146097, of_era = day % 146097;
    unsigned year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365, of_year = of_era - (365 * year + year / 4 - year / 100);
    unsigned m = (5 * of_year + 2) / 153, date = of_year - (153 * m + 2) / 5 + 1, month = m < 10 ? m + 3 : m - 9;
    word[k] = (year + era * 400 + (month <= 2)) << 12 | month << 8 | date << 3 | (day + 3) % 7;
  }
  out[i] = make_uint4(word[0], word[1], word[2], word[3]);
}
}
