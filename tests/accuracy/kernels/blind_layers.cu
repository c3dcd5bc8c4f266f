// Layers of language and vision models: decoding, routing of experts, state-space scans, losses, optimiser steps, boxes.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int d = 16; d; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}

// Sum over a block of at most 1024 threads, known to all of them.
__device__ float block_sum(float v) {
  __shared__ float part[33];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  v = warp_sum(v);
  __syncthreads();
  if (lane == 0) part[warp] = v;
  __syncthreads();
  if (warp == 0) {
    v = warp_sum(lane < (blockDim.x + 31) / 32 ? part[lane] : 0.0f);
    if (lane == 0) part[32] = v;
  }
  __syncthreads();
  return part[32];
}

__device__ __forceinline__ float4 four_halves(uint2 v) {
  float2 a = __half22float2(*(__half2*)&v.x), b = __half22float2(*(__half2*)&v.y);
  return make_float4(a.x, a.y, b.x, b.y);
}

// Decoding with GROUP query heads a head of keys and values (128 halves each), the tokens split over blocks: a warp a token,
// online softmax, partial sums for a later pass.
template <int GROUP>
__global__ void gqa_decode(const uint2* __restrict__ q, const uint2* __restrict__ k, const uint2* __restrict__ v, float4* __restrict__ partial, float2* __restrict__ weights, int tokens, int each) {
  __shared__ float4 sums[4][GROUP][32];
  __shared__ float2 tops[4][GROUP];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  float4 query[GROUP], acc[GROUP];
  float top[GROUP], total[GROUP];
#pragma unroll
  for (int g = 0; g < GROUP; ++g) {
    query[g] = four_halves(q[(blockIdx.x * GROUP + g) * 32 + lane]);
    acc[g] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    top[g] = -1e30f;
    total[g] = 0.0f;
  }
  int last = min((int)(blockIdx.y + 1) * each, tokens);
  for (int t = blockIdx.y * each + warp; t < last; t += 4) {
    size_t at = ((size_t)blockIdx.x * tokens + t) * 32 + lane;
    float4 key = four_halves(k[at]), value = four_halves(v[at]);
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      float s = warp_sum(query[g].x * key.x + query[g].y * key.y + query[g].z * key.z + query[g].w * key.w) * 0.08838835f;
      float m = fmaxf(top[g], s), old = __expf(top[g] - m), w = __expf(s - m);
      top[g] = m;
      total[g] = total[g] * old + w;
      acc[g] = make_float4(acc[g].x * old + w * value.x, acc[g].y * old + w * value.y, acc[g].z * old + w * value.z, acc[g].w * old + w * value.w);
    }
  }
#pragma unroll
  for (int g = 0; g < GROUP; ++g) {
    sums[warp][g][lane] = acc[g];
    if (lane == 0) tops[warp][g] = make_float2(top[g], total[g]);
  }
  __syncthreads();
  for (int g = warp; g < GROUP; g += 4) {
    float m = fmaxf(fmaxf(tops[0][g].x, tops[1][g].x), fmaxf(tops[2][g].x, tops[3][g].x)), l = 0.0f;
    float4 s = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      float f = __expf(tops[w][g].x - m);
      float4 a = sums[w][g][lane];
      l += f * tops[w][g].y;
      s = make_float4(s.x + f * a.x, s.y + f * a.y, s.z + f * a.z, s.w + f * a.w);
    }
    int out = (blockIdx.x * GROUP + g) * gridDim.y + blockIdx.y;
    partial[(size_t)out * 32 + lane] = s;
    if (lane == 0) weights[out] = make_float2(m, l);
  }
}

// Update of low rank: y += scale * T B, two columns a thread with its part of B in registers, rows of T in shared memory.
template <int RANK>
__global__ void lora_expand(const float* __restrict__ t, const __half2* __restrict__ b, __half2* __restrict__ y, int cols2, float scale) {
  __shared__ float rows[64 * RANK];
  int c = blockIdx.x * blockDim.x + threadIdx.x, first = blockIdx.y * 64;
  for (int i = threadIdx.x; i < 64 * RANK; i += blockDim.x) rows[i] = t[first * RANK + i] * scale;
  float2 w[RANK];
#pragma unroll
  for (int r = 0; r < RANK; ++r) w[r] = __half22float2(b[r * cols2 + c]);
  __syncthreads();
#pragma unroll 4
  for (int i = 0; i < 64; ++i) {
    size_t at = (size_t)(first + i) * cols2 + c;
    float2 s = __half22float2(y[at]);
#pragma unroll
    for (int r = 0; r < RANK; ++r) {
      float a = rows[i * RANK + r];
      s.x += a * w[r].x;
      s.y += a * w[r].y;
    }
    y[at] = __floats2half2_rn(s.x, s.y);
  }
}

// Normalisation over groups of channels, then SiLU: a group a block, held in registers, PER times eight halves a thread.
template <int PER>
__global__ void group_norm_silu(const uint4* __restrict__ in, const float* __restrict__ gamma, const float* __restrict__ beta, uint4* __restrict__ out, int plane8, int per_group, int groups) {
  size_t base = (size_t)blockIdx.x * per_group * plane8;
  uint4 kept[PER];
  float s = 0.0f, q = 0.0f;
#pragma unroll
  for (int k = 0; k < PER; ++k) {
    kept[k] = in[base + k * blockDim.x + threadIdx.x];
    const __half2* h = (const __half2*)&kept[k];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float2 f = __half22float2(h[j]);
      s += f.x + f.y;
      q += f.x * f.x + f.y * f.y;
    }
  }
  float scale = 1.0f / (per_group * plane8 * 8), mean = block_sum(s) * scale;
  float r = rsqrtf(fmaxf(block_sum(q) * scale - mean * mean, 0.0f) + 1e-5f);
#pragma unroll
  for (int k = 0; k < PER; ++k) {
    int i = k * blockDim.x + threadIdx.x, c = blockIdx.x % groups * per_group + i / plane8;
    float a = gamma[c] * r, b = beta[c] - mean * a;
    __half2* h = (__half2*)&kept[k];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float2 f = __half22float2(h[j]);
      f = make_float2(f.x * a + b, f.y * a + b);
      h[j] = __floats2half2_rn(__fdividef(f.x, 1.0f + __expf(-f.x)), __fdividef(f.y, 1.0f + __expf(-f.y)));
    }
    out[base + i] = kept[k];
  }
}

extern "C" {

// Sampling from the smallest set of tokens whose probabilities reach `p`: a row in shared memory, the threshold by bisection,
// the token by a scan of the threads' shares.
__global__ void nucleus_sample(const float* __restrict__ logits, const float* __restrict__ uniform, int* __restrict__ token, float* __restrict__ kept, float p, float temperature, int vocabulary) {
  extern __shared__ float row[];
  __shared__ float tops[33];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  const float* in = logits + (size_t)blockIdx.x * vocabulary;
  float top = -1e30f;
  for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) {
    float v = in[i] * temperature;
    row[i] = v;
    top = fmaxf(top, v);
  }
  top = warp_max(top);
  if (lane == 0) tops[warp] = top;
  __syncthreads();
  top = warp_max(lane < warps ? tops[lane] : -1e30f);
  float s = 0.0f;
  for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) {
    float e = __expf(row[i] - top);
    row[i] = e;
    s += e;
  }
  float want = p * block_sum(s), low = 0.0f, high = 1.0f;
  for (int round = 0; round < 10; ++round) {
    float middle = 0.5f * (low + high);
    s = 0.0f;
    for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) s += row[i] >= middle ? row[i] : 0.0f;
    if (block_sum(s) >= want) low = middle;
    else high = middle;
  }
  s = 0.0f;
  for (int i = threadIdx.x; i < vocabulary; i += blockDim.x) s += row[i] >= low ? row[i] : 0.0f;
  float before = s;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    float o = __shfl_up_sync(0xffffffffu, before, d);
    if (lane >= d) before += o;
  }
  __syncthreads();
  if (lane == 31) tops[warp] = before;
  __syncthreads();
  float total = 0.0f, earlier = 0.0f;
  for (int w = 0; w < warps; ++w) {
    earlier += w < warp ? tops[w] : 0.0f;
    total += tops[w];
  }
  float u = uniform[blockIdx.x] * total, at = earlier + before - s;
  if (u >= at && u < at + s) {
    int found = -1;
    for (int i = threadIdx.x; i < vocabulary; i += blockDim.x)
      if (row[i] >= low) {
        found = i;
        at += row[i];
        if (u < at) break;
      }
    token[blockIdx.x] = found;
    kept[blockIdx.x] = low;
  }
}

// The two experts of 64 with the largest probabilities, a warp a token; tokens of each expert are counted.
__global__ void route_top2(const float2* __restrict__ logits, int2* __restrict__ experts, float2* __restrict__ weights, int* __restrict__ counts, int tokens) {
  __shared__ int local[64];
  int lane = threadIdx.x & 31, t = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
  if (threadIdx.x < 64) local[threadIdx.x] = 0;
  __syncthreads();
  if (t < tokens) {
    float2 v = logits[(size_t)t * 32 + lane];
    float top = warp_max(fmaxf(v.x, v.y));
    v = make_float2(__expf(v.x - top), __expf(v.y - top));
    float value[2];
    int index[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      float best = v.x >= v.y ? v.x : v.y;
      int at = v.x >= v.y ? 2 * lane : 2 * lane + 1;
#pragma unroll
      for (int d = 16; d; d >>= 1) {
        float o = __shfl_xor_sync(0xffffffffu, best, d);
        int a = __shfl_xor_sync(0xffffffffu, at, d);
        if (o > best || (o == best && a < at)) {
          best = o;
          at = a;
        }
      }
      value[k] = best;
      index[k] = at;
      if (at == 2 * lane) v.x = -1.0f;
      if (at == 2 * lane + 1) v.y = -1.0f;
    }
    if (lane == 0) {
      float r = __fdividef(1.0f, value[0] + value[1]);
      experts[t] = make_int2(index[0], index[1]);
      weights[t] = make_float2(value[0] * r, value[1] * r);
      atomicAdd(&local[index[0]], 1);
      atomicAdd(&local[index[1]], 1);
    }
  }
  __syncthreads();
  if (threadIdx.x < 64 && local[threadIdx.x]) atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}

// Rows of the experts' outputs (bfloat16) back to their tokens, weighted; a block a token, eight numbers a thread.
__global__ void combine_experts(const uint4* __restrict__ outputs, const int* __restrict__ slots, const float* __restrict__ weights, uint4* __restrict__ out, int each) {
  float s[8] = {};
  for (int k = 0; k < each; ++k) {
    float w = weights[blockIdx.x * each + k];
    uint4 v = outputs[(size_t)slots[blockIdx.x * each + k] * blockDim.x + threadIdx.x];
    const __nv_bfloat162* h = (const __nv_bfloat162*)&v;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float2 f = __bfloat1622float2(h[j]);
      s[2 * j] += w * f.x;
      s[2 * j + 1] += w * f.y;
    }
  }
  uint4 result;
  __nv_bfloat162* h = (__nv_bfloat162*)&result;
#pragma unroll
  for (int j = 0; j < 4; ++j) h[j] = __floats2bfloat162_rn(s[2 * j], s[2 * j + 1]);
  out[(size_t)blockIdx.x * blockDim.x + threadIdx.x] = result;
}

// Causal convolution of width four along sequences, then SiLU: four elements a thread, what came before from the lane beside.
__global__ void causal_conv4(const float4* __restrict__ in, const float4* __restrict__ weight, const float* __restrict__ bias, float4* __restrict__ out, int channels, int length4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
  size_t base = (size_t)blockIdx.y * length4;
  float4 v = i < length4 ? in[base + i] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  float b = __shfl_up_sync(0xffffffffu, v.y, 1), c = __shfl_up_sync(0xffffffffu, v.z, 1), d = __shfl_up_sync(0xffffffffu, v.w, 1);
  if (lane == 0) {
    float4 o = i > 0 && i <= length4 ? in[base + i - 1] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    b = o.y;
    c = o.z;
    d = o.w;
  }
  if (i >= length4) return;
  float4 w = weight[blockIdx.y % channels];
  float e = bias[blockIdx.y % channels];
  float4 r = make_float4(e + w.x * b + w.y * c + w.z * d + w.w * v.x, e + w.x * c + w.y * d + w.z * v.x + w.w * v.y,
                         e + w.x * d + w.y * v.x + w.z * v.y + w.w * v.z, e + w.x * v.x + w.y * v.y + w.z * v.z + w.w * v.w);
  out[base + i] = make_float4(__fdividef(r.x, 1.0f + __expf(-r.x)), __fdividef(r.y, 1.0f + __expf(-r.y)), __fdividef(r.z, 1.0f + __expf(-r.z)), __fdividef(r.w, 1.0f + __expf(-r.w)));
}

// Selective scan: a channel a thread with sixteen states in registers, the steps one after another, B and C of sixteen steps
// staged in shared memory. x and dt are [batch, length, channels], b and c [batch, length, 16].
__global__ void __launch_bounds__(64) selective_scan(const float* __restrict__ x, const float* __restrict__ dt, const float* __restrict__ a, const float* __restrict__ b, const float* __restrict__ c, const float* __restrict__ skip, float* __restrict__ y, int length, int channels) {
  __shared__ float bs[16][16], cs[16][16];
  int d = blockIdx.x * 64 + threadIdx.x;
  float rate[16], state[16];
#pragma unroll
  for (int n = 0; n < 16; ++n) {
    rate[n] = a[n * channels + d] * 1.4426950f;
    state[n] = 0.0f;
  }
  float direct = skip[d];
  for (int t0 = 0; t0 < length; t0 += 16) {
    size_t from = ((size_t)blockIdx.y * length + t0) * 16;
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < 256; i += 64) {
      bs[i >> 4][i & 15] = b[from + i];
      cs[i >> 4][i & 15] = c[from + i];
    }
    __syncthreads();
    for (int t = 0; t < 16; ++t) {
      size_t at = ((size_t)blockIdx.y * length + t0 + t) * channels + d;
      float step = dt[at], u = x[at], s = direct * u, v = step * u;
#pragma unroll
      for (int n = 0; n < 16; ++n) {
        state[n] = exp2f(step * rate[n]) * state[n] + v * bs[t][n];
        s += state[n] * cs[t][n];
      }
      y[at] = s;
    }
  }
}

// [n, 4 * channels, height, width] to [n, channels, 2 * height, 2 * width], a result a thread.
__global__ void pixel_shuffle2(const float* __restrict__ in, float* __restrict__ out, int width, int height, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int x = i % (2 * width), y = i / (2 * width) % (2 * height), c = i / (4 * width * height);
  out[i] = in[((c * 4 + (y & 1) * 2 + (x & 1)) * height + (y >> 1)) * width + (x >> 1)];
}

// Momentum step of many tensors at once: a block a chunk, {offset, length} from a table; gradients are halves.
__global__ void momentum_chunks(const int2* __restrict__ chunks, float* __restrict__ p, float* __restrict__ m, const __half* __restrict__ g, float rate, float momentum, float decay, float unscale) {
  int2 chunk = chunks[blockIdx.x];
  for (int i = threadIdx.x * 4; i < chunk.y; i += blockDim.x * 4) {
    size_t at = (size_t)chunk.x + i;
    if (i + 4 <= chunk.y) {
      float4 w = *(float4*)(p + at), v = *(float4*)(m + at), d = four_halves(*(const uint2*)(g + at));
      v = make_float4(momentum * v.x + d.x * unscale + decay * w.x, momentum * v.y + d.y * unscale + decay * w.y, momentum * v.z + d.z * unscale + decay * w.z, momentum * v.w + d.w * unscale + decay * w.w);
      *(float4*)(m + at) = v;
      *(float4*)(p + at) = make_float4(w.x - rate * v.x, w.y - rate * v.y, w.z - rate * v.z, w.w - rate * v.w);
    } else
      for (; i < chunk.y; ++i, ++at) {
        float w = p[at], v = momentum * m[at] + __half2float(g[at]) * unscale + decay * w;
        m[at] = v;
        p[at] = w - rate * v;
      }
  }
}

// Focal loss of anchors against classes with its gradient; label 0 is the background. Losses of a block added by one atomic.
__global__ void focal_loss(const float* __restrict__ logits, const int* __restrict__ labels, float* __restrict__ gradient, float* __restrict__ loss, int classes, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float l = 0.0f;
  if (i < n) {
    bool hit = labels[i / classes] == i % classes + 1;
    float x = hit ? logits[i] : -logits[i], a = hit ? 0.25f : 0.75f;
    float e = __expf(-fabsf(x)), r = __fdividef(1.0f, 1.0f + e), p = x >= 0.0f ? r : e * r, q = 1.0f - p;
    float logp = fminf(x, 0.0f) - __logf(1.0f + e);
    l = -a * q * q * logp;
    float d = a * q * q * (2.0f * p * logp - q);
    gradient[i] = hit ? d : -d;
  }
  l = block_sum(l);
  if (threadIdx.x == 0) atomicAdd(loss, l);
}

// Products of signed bytes, A [m, k] times B [n, k] transposed: 64 x 64 tiles, 4 x 4 results a thread, four products an instruction.
__global__ void __launch_bounds__(256) product_bytes(const int* __restrict__ a, const int* __restrict__ b, __half* __restrict__ c, int n, int words, float scale) {
  __shared__ int as[16][68], bs[16][68];
  int tx = threadIdx.x & 15, ty = threadIdx.x >> 4, row = blockIdx.y * 64, col = blockIdx.x * 64;
  int s[4][4] = {};
  for (int w0 = 0; w0 < words; w0 += 16) {
    __syncthreads();
#pragma unroll
    for (int r = ty; r < 64; r += 16) {
      as[tx][r] = a[(size_t)(row + r) * words + w0 + tx];
      bs[tx][r] = b[(size_t)(col + r) * words + w0 + tx];
    }
    __syncthreads();
#pragma unroll
    for (int w = 0; w < 16; ++w) {
      int4 u = *(int4*)&as[w][4 * ty], v = *(int4*)&bs[w][4 * tx];
      int p[4] = {u.x, u.y, u.z, u.w}, q[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) s[i][j] = __dp4a(p[i], q[j], s[i][j]);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; j += 2) *(__half2*)(c + (size_t)(row + 4 * ty + i) * n + col + 4 * tx + j) = __floats2half2_rn(s[i][j] * scale, s[i][j + 1] * scale);
}

// Cell of a long short-term memory: four gates from two products and a bias.
__global__ void lstm_cell(const float* __restrict__ gx, const float* __restrict__ gh, const float* __restrict__ bias, float* __restrict__ cell, float* __restrict__ hidden, int width, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int h = i % width, at = i / width * 4 * width + h;
  float v[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = gx[at + k * width] + gh[at + k * width] + bias[k * width + h];
  float in = __fdividef(1.0f, 1.0f + __expf(-v[0])), forget = __fdividef(1.0f, 1.0f + __expf(-v[1])), out = __fdividef(1.0f, 1.0f + __expf(-v[3]));
  float g = 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * v[2])), c = forget * cell[i] + in * g;
  cell[i] = c;
  hidden[i] = out * (1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * c)));
}

// Which boxes of a tile of 64 overlap a box by more than a threshold, a bit each; only tiles on and above the diagonal.
__global__ void overlap_masks(const float4* __restrict__ boxes, unsigned long long* __restrict__ masks, float threshold, int n) {
  if (blockIdx.y > blockIdx.x) return;
  __shared__ float4 tile[64];
  int row = blockIdx.y * 64 + threadIdx.x, col = blockIdx.x * 64, many = min(n - col, 64);
  if (threadIdx.x < many) tile[threadIdx.x] = boxes[col + threadIdx.x];
  __syncthreads();
  if (row >= n) return;
  float4 b = boxes[row];
  float area = (b.z - b.x) * (b.w - b.y);
  unsigned long long mask = 0;
  for (int k = blockIdx.x == blockIdx.y ? threadIdx.x + 1 : 0; k < many; ++k) {
    float4 o = tile[k];
    float both = fmaxf(fminf(b.z, o.z) - fmaxf(b.x, o.x), 0.0f) * fmaxf(fminf(b.w, o.w) - fmaxf(b.y, o.y), 0.0f);
    if (both > threshold * (area + (o.z - o.x) * (o.w - o.y) - both)) mask |= 1ull << k;
  }
  masks[(size_t)row * gridDim.x + blockIdx.x] = mask;
}
}
