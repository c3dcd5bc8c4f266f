// Layers of neural networks: statistics, convolutions, pooling, losses, optimisers, attention, weights of four bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

__device__ __forceinline__ float sum_of_warp(float v) {
#pragma unroll
  for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

// Two sums over a block of at most 1024 threads.
__device__ float2 sums_of_block(float a, float b) {
  __shared__ float2 part[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  a = sum_of_warp(a);
  b = sum_of_warp(b);
  if (lane == 0) part[warp] = make_float2(a, b);
  __syncthreads();
  float2 p = lane < (blockDim.x + 31) / 32 ? part[lane] : make_float2(0.0f, 0.0f);
  return make_float2(sum_of_warp(p.x), sum_of_warp(p.y));
}

extern "C" {

// Mean and variance of each channel of an NCHW tensor, a block a channel.
__global__ void batchnorm_stats(const float* __restrict__ in, float* __restrict__ mean, float* __restrict__ variance, int batch, int channels, int plane) {
  float s = 0.0f, q = 0.0f;
  for (int n = 0; n < batch; ++n) {
    const float* p = in + ((size_t)n * channels + blockIdx.x) * plane;
    for (int i = threadIdx.x; i < plane; i += blockDim.x) {
      float v = p[i];
      s += v;
      q += v * v;
    }
  }
  float2 t = sums_of_block(s, q);
  if (threadIdx.x == 0) {
    float scale = 1.0f / (batch * plane), m = t.x * scale;
    mean[blockIdx.x] = m;
    variance[blockIdx.x] = t.y * scale - m * m;
  }
}

// Normalise, scale and shift, then ReLU: four elements a thread, the channel by division.
__global__ void batchnorm_apply(const float4* __restrict__ in, const float* __restrict__ scale, const float* __restrict__ shift, float4* __restrict__ out, int channels, int plane4, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int c = i / plane4 % channels;
  float a = scale[c], b = shift[c];
  float4 v = in[i];
  out[i] = make_float4(fmaxf(a * v.x + b, 0.0f), fmaxf(a * v.y + b, 0.0f), fmaxf(a * v.z + b, 0.0f), fmaxf(a * v.w + b, 0.0f));
}

// Depthwise 3 x 3, padding one, a plane a blockIdx.y.
__global__ void depthwise3(const float* __restrict__ in, const float* __restrict__ weight, float* __restrict__ out, int channels, int side) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, plane = side * side;
  if (i >= plane) return;
  int x = i % side, y = i / side;
  const float* p = in + (size_t)blockIdx.y * plane;
  const float* w = weight + blockIdx.y % channels * 9;
  float s = 0.0f;
#pragma unroll
  for (int dy = -1; dy <= 1; ++dy)
#pragma unroll
    for (int dx = -1; dx <= 1; ++dx)
      if (x + dx >= 0 && x + dx < side && y + dy >= 0 && y + dy < side) s += w[(dy + 1) * 3 + dx + 1] * p[(y + dy) * side + x + dx];
  out[(size_t)blockIdx.y * plane + i] = s;
}

// Gradient of 3 x 3 max pooling with stride 2: each input asks the windows that hold it.
__global__ void maxpool_backward(const float* __restrict__ gradient, const unsigned char* __restrict__ where, float* __restrict__ out, int side, int pooled) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= side || y >= side) return;
  size_t base = (size_t)blockIdx.z * pooled * pooled;
  float s = 0.0f;
  for (int py = max((y - 1) / 2, 0); py <= min(y / 2, pooled - 1); ++py)
    for (int px = max((x - 1) / 2, 0); px <= min(x / 2, pooled - 1); ++px)
      if (where[base + py * pooled + px] == (y - 2 * py) * 3 + x - 2 * px) s += gradient[base + py * pooled + px];
  out[((size_t)blockIdx.z * side + y) * side + x] = s;
}

// Mean of each plane of 7 x 7, a warp a plane.
__global__ void global_pool(const float* __restrict__ in, float* __restrict__ out, int plane, int planes) {
  int warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (warp >= planes) return;
  float s = 0.0f;
  for (int i = lane; i < plane; i += 32) s += in[(size_t)warp * plane + i];
  s = sum_of_warp(s);
  if (lane == 0) out[warp] = s / plane;
}

// Gradient of layer normalisation with respect to its input, a block a row; the row is read twice.
__global__ void layernorm_backward(const float* __restrict__ dy, const float* __restrict__ x, const float* __restrict__ gamma, const float* __restrict__ mean, const float* __restrict__ rstd, float* __restrict__ dx, int cols) {
  size_t row = (size_t)blockIdx.x * cols;
  float m = mean[blockIdx.x], r = rstd[blockIdx.x], a = 0.0f, b = 0.0f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    float g = dy[row + i] * gamma[i];
    a += g;
    b += g * (x[row + i] - m) * r;
  }
  float2 t = sums_of_block(a, b);
  a = t.x / cols;
  b = t.y / cols;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) dx[row + i] = r * (dy[row + i] * gamma[i] - a - (x[row + i] - m) * r * b);
}

// Cross entropy and its gradient in one kernel: online maximum and sum, then the row again.
__global__ void cross_entropy(const float* __restrict__ logits, const int* __restrict__ labels, float* __restrict__ loss, float* __restrict__ gradient, int classes) {
  __shared__ float2 part[32];
  size_t row = (size_t)blockIdx.x * classes;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, label = labels[blockIdx.x];
  float top = -3.0e38f, sum = 0.0f;
  for (int i = threadIdx.x; i < classes; i += blockDim.x) {
    float v = logits[row + i], higher = fmaxf(top, v);
    sum = sum * __expf(top - higher) + __expf(v - higher);
    top = higher;
  }
#pragma unroll
  for (int d = 16; d; d >>= 1) {
    float t = __shfl_xor_sync(~0u, top, d), s = __shfl_xor_sync(~0u, sum, d), higher = fmaxf(top, t);
    sum = sum * __expf(top - higher) + s * __expf(t - higher);
    top = higher;
  }
  if (lane == 0) part[warp] = make_float2(top, sum);
  __syncthreads();
  top = -3.0e38f;
  sum = 0.0f;
  for (int w = 0; w < blockDim.x / 32; ++w) {
    float2 p = part[w];
    float higher = fmaxf(top, p.x);
    sum = sum * __expf(top - higher) + p.y * __expf(p.x - higher);
    top = higher;
  }
  if (threadIdx.x == 0) loss[blockIdx.x] = __logf(sum) + top - logits[row + label];
  float scale = __fdividef(1.0f, sum);
  for (int i = threadIdx.x; i < classes; i += blockDim.x) gradient[row + i] = __expf(logits[row + i] - top) * scale - (i == label ? 1.0f : 0.0f);
}

// The four largest of each row of 1024, a warp a row with the row in registers.
__global__ void top4_rows(const float* __restrict__ in, float* __restrict__ values, int* __restrict__ indices, int rows) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (row >= rows) return;
  float v[32];
#pragma unroll
  for (int k = 0; k < 32; ++k) v[k] = in[(size_t)row * 1024 + k * 32 + lane];
  for (int t = 0; t < 4; ++t) {
    float best = v[0];
    int at = 0;
#pragma unroll
    for (int k = 1; k < 32; ++k)
      if (v[k] > best) { best = v[k]; at = k; }
    int index = at * 32 + lane;
#pragma unroll
    for (int d = 16; d; d >>= 1) {
      float o = __shfl_xor_sync(~0u, best, d);
      int j = __shfl_xor_sync(~0u, index, d);
      if (o > best || (o == best && j < index)) { best = o; index = j; }
    }
#pragma unroll
    for (int k = 0; k < 32; ++k)
      if (index == k * 32 + lane) v[k] = -3.0e38f;
    if (lane == 0) { values[row * 4 + t] = best; indices[row * 4 + t] = index; }
  }
}

// Adam: three arrays updated from a gradient.
__global__ void adam(float* __restrict__ p, const float* __restrict__ g, float* __restrict__ m, float* __restrict__ v, float rate, float beta1, float beta2, float eps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float d = g[i], a = beta1 * m[i] + (1.0f - beta1) * d, b = beta2 * v[i] + (1.0f - beta2) * d * d;
  m[i] = a;
  v[i] = b;
  p[i] -= rate * a / (sqrtf(b) + eps);
}

// Dropout of halves, eight a thread, random bits from a hash of the index; a mask of bits is kept.
__global__ void dropout(const uint4* __restrict__ in, uint4* __restrict__ out, unsigned char* __restrict__ mask, unsigned seed, unsigned threshold, float scale, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint4 x = in[i];
  __half2* h = reinterpret_cast<__half2*>(&x);
  unsigned bits = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    unsigned r = (i * 4 + k) * 0x9e3779b9u ^ seed;
    r ^= r >> 16; r *= 0x85ebca6bu; r ^= r >> 13; r *= 0xc2b2ae35u; r ^= r >> 16;
    bool low = (r & 0xffff) >= threshold, high = (r >> 16) >= threshold;
    float2 f = __half22float2(h[k]);
    h[k] = __floats2half2_rn(low ? f.x * scale : 0.0f, high ? f.y * scale : 0.0f);
    bits |= (unsigned)low << (2 * k) | (unsigned)high << (2 * k + 1);
  }
  out[i] = x;
  mask[i] = (unsigned char)bits;
}

// SiLU of one half of each row times the other half, bfloat16, two a thread.
__global__ void swiglu(const __nv_bfloat162* __restrict__ in, __nv_bfloat162* __restrict__ out, int width, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int row = i / width, col = i % width;
  float2 a = __bfloat1622float2(in[(size_t)row * 2 * width + col]), b = __bfloat1622float2(in[(size_t)row * 2 * width + width + col]);
  out[i] = __floats2bfloat162_rn(a.x * b.x / (1.0f + __expf(-a.x)), a.y * b.y / (1.0f + __expf(-a.y)));
}

// Eight weights of four bits to halves, a scale and a zero a group.
__global__ void unpack_int4(const unsigned* __restrict__ packed, const __half* __restrict__ scales, const unsigned char* __restrict__ zeros, uint4* __restrict__ out, int group8, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned q = packed[i];
  int g = i / group8, zero = zeros[g];
  __half s = scales[g];
  __half h[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) h[k] = __hmul(__int2half_rn((int)(q >> (4 * k) & 15) - zero), s);
  out[i] = *reinterpret_cast<uint4*>(h);
}

// y = W x with weights of four bits, a warp a row, x as halves.
__global__ void gemv_int4(const uint4* __restrict__ packed, const __half* __restrict__ scales, const __half2* __restrict__ x, __half* __restrict__ y, int cols, int rows) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31, words = cols / 32;
  if (row >= rows) return;
  float s = 0.0f;
  for (int i = lane; i < words; i += 32) {
    uint4 q = packed[(size_t)row * words + i];
    unsigned parts[4] = {q.x, q.y, q.z, q.w};
    float t = 0.0f;
#pragma unroll
    for (int p = 0; p < 4; ++p)
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float2 v = __half22float2(x[i * 16 + p * 4 + k]);
        t += v.x * ((int)(parts[p] >> (8 * k) & 15) - 8) + v.y * ((int)(parts[p] >> (8 * k + 4) & 15) - 8);
      }
    s += t * __half2float(scales[(size_t)row * (cols / 128) + i / 4]);
  }
  s = sum_of_warp(s);
  if (lane == 0) y[row] = __float2half(s);
}

// One query a head against its keys and values: online softmax, warps take tokens in turn. Head size 64.
__global__ void attention_decode(const float2* __restrict__ q, const float2* __restrict__ k, const float2* __restrict__ v, float2* __restrict__ out, int tokens) {
  __shared__ float2 acc[8][32];
  __shared__ float tops[8], sums[8];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  float2 mine = q[blockIdx.x * 32 + lane], a = make_float2(0.0f, 0.0f);
  float top = -3.0e38f, sum = 0.0f;
  for (int t = warp; t < tokens; t += warps) {
    size_t at = ((size_t)blockIdx.x * tokens + t) * 32 + lane;
    float2 key = k[at], value = v[at];
    float score = sum_of_warp(mine.x * key.x + mine.y * key.y) * 0.125f, higher = fmaxf(top, score);
    float old = __expf(top - higher), w = __expf(score - higher);
    sum = sum * old + w;
    a.x = a.x * old + w * value.x;
    a.y = a.y * old + w * value.y;
    top = higher;
  }
  acc[warp][lane] = a;
  if (lane == 0) { tops[warp] = top; sums[warp] = sum; }
  __syncthreads();
  if (warp) return;
  float all = -3.0e38f, total = 0.0f;
  for (int w = 0; w < warps; ++w) all = fmaxf(all, tops[w]);
  float2 result = make_float2(0.0f, 0.0f);
  for (int w = 0; w < warps; ++w) {
    float f = __expf(tops[w] - all);
    total += f * sums[w];
    result.x += f * acc[w][lane].x;
    result.y += f * acc[w][lane].y;
  }
  out[blockIdx.x * 32 + lane] = make_float2(__fdividef(result.x, total), __fdividef(result.y, total));
}

// New keys and values put where the slots say.
__global__ void cache_append(const uint4* __restrict__ key, const uint4* __restrict__ value, const int* __restrict__ slots, uint4* __restrict__ keys, uint4* __restrict__ values, int width, int stride) {
  int slot = slots[blockIdx.x];
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    keys[(size_t)slot * width + i] = key[(size_t)blockIdx.x * stride + i];
    values[(size_t)slot * width + i] = value[(size_t)blockIdx.x * stride + i];
  }
}

// Two tensors joined along their rows, one element a thread.
__global__ void concat_rows(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ out, int wa, int wb, long long n) {
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long row = i / (wa + wb);
  int col = (int)(i - row * (wa + wb));
  out[i] = col < wa ? a[row * wa + col] : b[row * wb + col - wa];
}

// Reflection padding of planes.
__global__ void pad_reflect(const float* __restrict__ in, float* __restrict__ out, int width, int height, int pad) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y, w = width + 2 * pad;
  if (x >= w) return;
  int sx = abs(x - pad), sy = abs(y - pad);
  sx = sx < width ? sx : 2 * width - 2 - sx;
  sy = sy < height ? sy : 2 * height - 2 - sy;
  out[((size_t)blockIdx.z * gridDim.y + y) * w + x] = in[((size_t)blockIdx.z * height + sy) * width + sx];
}

// NCHW to NHWC through a tile: 32 pixels by 32 channels.
__global__ void nchw_to_nhwc(const __half* __restrict__ in, __half* __restrict__ out, int channels, int plane) {
  __shared__ __half tile[32][34];
  size_t image = (size_t)blockIdx.z * channels * plane;
  int p0 = blockIdx.x * 32, c0 = blockIdx.y * 32;
  for (int k = threadIdx.y; k < 32; k += blockDim.y)
    if (c0 + k < channels && p0 + threadIdx.x < plane) tile[k][threadIdx.x] = in[image + (size_t)(c0 + k) * plane + p0 + threadIdx.x];
  __syncthreads();
  for (int k = threadIdx.y; k < 32; k += blockDim.y)
    if (c0 + threadIdx.x < channels && p0 + k < plane) out[image + (size_t)(p0 + k) * channels + c0 + threadIdx.x] = tile[threadIdx.x][k];
}

// Attention of tiles of 64 queries and 64 keys, head size 64, everything staged in 68 KB of shared memory.
__global__ void __launch_bounds__(256) attention_tiles(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v, float* __restrict__ out, int tokens, float scale) {
  extern __shared__ float shared[];
  float(*qs)[68] = reinterpret_cast<float(*)[68]>(shared);
  float(*ks)[68] = qs + 64, (*vs)[68] = ks + 64, (*ps)[68] = vs + 64;
  int tx = threadIdx.x & 15, ty = threadIdx.x >> 4;
  size_t head = (size_t)blockIdx.y * tokens * 64;
  for (int i = threadIdx.x; i < 64 * 16; i += 256) {
    float4 t = *reinterpret_cast<const float4*>(q + head + (size_t)(blockIdx.x * 64 + i / 16) * 64 + i % 16 * 4);
    int c = i % 16 * 4, r = i / 16;
    qs[c][r] = t.x; qs[c + 1][r] = t.y; qs[c + 2][r] = t.z; qs[c + 3][r] = t.w;
  }
  float acc[4][4] = {}, top[4], sum[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) top[i] = -3.0e38f;
  for (int first = 0; first < tokens; first += 64) {
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * 16; i += 256) {
      int c = i % 16 * 4, r = i / 16;
      float4 t = *reinterpret_cast<const float4*>(k + head + (size_t)(first + r) * 64 + c);
      ks[c][r] = t.x; ks[c + 1][r] = t.y; ks[c + 2][r] = t.z; ks[c + 3][r] = t.w;
      *reinterpret_cast<float4*>(&vs[r][c]) = *reinterpret_cast<const float4*>(v + head + (size_t)(first + r) * 64 + c);
    }
    __syncthreads();
    float s[4][4] = {};
#pragma unroll 8
    for (int d = 0; d < 64; ++d) {
      float4 a = *reinterpret_cast<float4*>(&qs[d][ty * 4]), b = *reinterpret_cast<float4*>(&ks[d][tx * 4]);
      float as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) s[i][j] += as[i] * bs[j];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float high = fmaxf(fmaxf(s[i][0], s[i][1]), fmaxf(s[i][2], s[i][3])) * scale;
#pragma unroll
      for (int d = 8; d; d >>= 1) high = fmaxf(high, __shfl_xor_sync(~0u, high, d));
      high = fmaxf(high, top[i]);
      float old = __expf(top[i] - high), row = 0.0f;
#pragma unroll
      for (int j = 0; j < 4; ++j) { s[i][j] = __expf(s[i][j] * scale - high); row += s[i][j]; acc[i][j] *= old; }
#pragma unroll
      for (int d = 8; d; d >>= 1) row += __shfl_xor_sync(~0u, row, d);
      sum[i] = sum[i] * old + row;
      top[i] = high;
#pragma unroll
      for (int j = 0; j < 4; ++j) ps[tx * 4 + j][ty * 4 + i] = s[i][j];
    }
    __syncthreads();
#pragma unroll 8
    for (int t = 0; t < 64; ++t) {
      float4 a = *reinterpret_cast<float4*>(&ps[t][ty * 4]), b = *reinterpret_cast<float4*>(&vs[t][tx * 4]);
      float as[4] = {a.x, a.y, a.z, a.w}, bs[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) acc[i][j] += as[i] * bs[j];
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float f = __fdividef(1.0f, sum[i]);
    *reinterpret_cast<float4*>(out + head + (size_t)(blockIdx.x * 64 + ty * 4 + i) * 64 + tx * 4) = make_float4(acc[i][0] * f, acc[i][1] * f, acc[i][2] * f, acc[i][3] * f);
  }
}
}

// 3 x 3 convolution of several channels, OUT filters a thread, weights in shared memory; the input has a border of one.
template <int OUT>
__global__ void conv_channels(const float* __restrict__ in, const float* __restrict__ weight, float* __restrict__ out, int channels, int width, int height) {
  extern __shared__ float w[];
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, pitch = width + 2;
  for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < OUT * channels * 9; i += blockDim.x * blockDim.y) w[i] = weight[blockIdx.z * OUT * channels * 9 + i];
  __syncthreads();
  if (x >= width || y >= height) return;
  float acc[OUT] = {};
  for (int c = 0; c < channels; ++c) {
    float v[9];
#pragma unroll
    for (int k = 0; k < 9; ++k) v[k] = in[((size_t)c * (height + 2) + y + k / 3) * pitch + x + k % 3];
#pragma unroll
    for (int o = 0; o < OUT; ++o)
#pragma unroll
      for (int k = 0; k < 9; ++k) acc[o] += v[k] * w[(o * channels + c) * 9 + k];
  }
#pragma unroll
  for (int o = 0; o < OUT; ++o) out[((size_t)(blockIdx.z * OUT + o) * height + y) * width + x] = acc[o];
}
