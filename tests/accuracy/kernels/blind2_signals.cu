// Signals, series and simulations: filters, recurrences, decoders, reacting and flowing fields, particles, small matrices.

extern "C" {

// Every fourth sample of a filter of 64 taps: 128 results a block, which stages the samples that they need.
__global__ void decimate4(const float* __restrict__ in, const float* __restrict__ taps, float* __restrict__ out, int n) {
  __shared__ float window[4 * 128 + 60];
  __shared__ float w[64];
  int t = threadIdx.x, first = blockIdx.x * 128;
  const float* from = in + (size_t)blockIdx.y * (4 * n + 60) + 4 * first;
  int wanted = 4 * min(128, n - first) + 60;
  for (int k = t; k < wanted; k += 128) window[k] = from[k];
  if (t < 64) w[t] = taps[t];
  __syncthreads();
  if (first + t >= n) return;
  float sum = 0;
#pragma unroll 16
  for (int k = 0; k < 64; ++k) sum += w[k] * window[4 * t + k];
  out[(size_t)blockIdx.y * n + first + t] = sum;
}

// Four recursive sections of second order after another, a channel a thread, samples of the channels side by side.
__global__ void biquad_cascade(const float* __restrict__ in, const float* __restrict__ sections, float* __restrict__ out, int channels, int steps) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  float b0[4], b1[4], b2[4], a1[4], a2[4], s1[4], s2[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    b0[k] = sections[5 * k];
    b1[k] = sections[5 * k + 1];
    b2[k] = sections[5 * k + 2];
    a1[k] = sections[5 * k + 3];
    a2[k] = sections[5 * k + 4];
    s1[k] = s2[k] = 0;
  }
#pragma unroll 4
  for (int i = 0; i < steps; ++i) {
    float x = in[(size_t)i * channels + c];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float y = b0[k] * x + s1[k];
      s1[k] = b1[k] * x - a1[k] * y + s2[k];
      s2[k] = b2[k] * x - a2[k] * y;
      x = y;
    }
    out[(size_t)i * channels + c] = x;
  }
}

// Time warping of two series of 128: a warp a pair, four columns a lane, each lane a row behind the one on its left.
__global__ void warp_series(const float4* __restrict__ queries, const float* __restrict__ others, float* __restrict__ out, int n) {
  __shared__ float rows[4][128];
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, pair = blockIdx.x * 4 + warp;
  if (pair >= n) return;
  float4 in = queries[(size_t)pair * 32 + lane];
  for (int k = lane; k < 128; k += 32) rows[warp][k] = others[(size_t)pair * 128 + k];
  __syncwarp();
  const float far = 1e30f;
  float q[4] = {in.x, in.y, in.z, in.w}, cost[4] = {far, far, far, far}, corner = lane ? far : 0;
  for (int s = 0; s < 128 + 31; ++s) {
    float left = __shfl_up_sync(0xffffffffu, cost[3], 1);
    if (lane == 0) left = far;
    int r = s - lane;
    if (r >= 0 && r < 128) {
      float x = rows[warp][r], before = left;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float up = cost[k], d = q[k] - x;
        cost[k] = before = d * d + fminf(fminf(up, before), corner);
        corner = up;
      }
      corner = left;
    }
  }
  if (lane == 31) out[pair] = cost[3];
}

// Decisions of a decoder of 64 states, a frame a block of 64: the better of two predecessors, a step between two barriers.
__global__ void viterbi64(const float2* __restrict__ received, uint2* __restrict__ decisions, float* __restrict__ metrics, int steps) {
  __shared__ float state[2][64];
  int t = threadIdx.x, lane = t & 31;
  const float2* in = received + (size_t)blockIdx.x * steps;
  unsigned* out = (unsigned*)(decisions + (size_t)blockIdx.x * steps) + (t >> 5);
  float first = __popc(t & 0x2d) & 1 ? -1.0f : 1.0f, second = __popc(t & 0x3b) & 1 ? -1.0f : 1.0f;
  state[0][t] = t ? -1e6f : 0.0f;
  __syncthreads();
  for (int i = 0; i < steps; ++i) {
    float2 r = in[i];
    float branch = first * r.x + second * r.y;
    float low = state[i & 1][t >> 1] + branch, high = state[i & 1][32 + (t >> 1)] - branch;
    unsigned votes = __ballot_sync(0xffffffffu, high > low);
    state[i & 1 ^ 1][t] = fmaxf(low, high);
    if (lane == 0) out[2 * i] = votes;
    __syncthreads();
  }
  metrics[blockIdx.x * 64 + t] = state[steps & 1][t];
}

// A step of two substances that react and diffuse on a torus (Gray and Scott), nine points.
__global__ void react_diffuse(const float2* __restrict__ in, float2* __restrict__ out, int width, int height, float feed, float kill) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  int left = x ? x - 1 : width - 1, right = x + 1 < width ? x + 1 : 0;
  const float2* up = in + (size_t)(y ? y - 1 : height - 1) * width;
  const float2* here = in + (size_t)y * width;
  const float2* down = in + (size_t)(y + 1 < height ? y + 1 : 0) * width;
  float2 c = here[x], w = here[left], e = here[right], n = up[x], s = down[x];
  float2 nw = up[left], ne = up[right], sw = down[left], se = down[right];
  float lu = 0.2f * (w.x + e.x + n.x + s.x) + 0.05f * (nw.x + ne.x + sw.x + se.x) - c.x;
  float lv = 0.2f * (w.y + e.y + n.y + s.y) + 0.05f * (nw.y + ne.y + sw.y + se.y) - c.y;
  float reaction = c.x * c.y * c.y;
  out[(size_t)y * width + x] = make_float2(c.x + lu - reaction + feed * (1 - c.x), c.y + 0.5f * lv + reaction - (feed + kill) * c.y);
}

struct Water {
  float h, u, v;
};

__device__ __forceinline__ Water water_at(const float* h, const float* u, const float* v, size_t i) { return {h[i], u[i], v[i]}; }

// Flux between two cells along the first velocity: the mean of theirs less a part of the jump (Rusanov).
__device__ __forceinline__ Water water_flux(Water a, Water b) {
  float ua = __fdividef(a.u, a.h), ub = __fdividef(b.u, b.h), ga = 9.81f * a.h, gb = 9.81f * b.h;
  float fastest = fmaxf(fabsf(ua) + ga * rsqrtf(ga), fabsf(ub) + gb * rsqrtf(gb));
  return {0.5f * (a.u + b.u - fastest * (b.h - a.h)), 0.5f * (a.u * ua + b.u * ub + 0.5f * (ga * a.h + gb * b.h) - fastest * (b.u - a.u)), 0.5f * (a.v * ua + b.v * ub - fastest * (b.v - a.v))};
}

// A step of shallow water: height and two momenta, four fluxes a cell.
__global__ void shallow_water(const float* __restrict__ h, const float* __restrict__ hu, const float* __restrict__ hv, float* __restrict__ h_out, float* __restrict__ hu_out, float* __restrict__ hv_out, int nx, int ny, float ratio) {
  int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
  if (x >= nx - 1 || y >= ny - 1) return;
  size_t i = (size_t)y * nx + x;
  Water c = water_at(h, hu, hv, i);
  Water w = water_flux(water_at(h, hu, hv, i - 1), c), e = water_flux(c, water_at(h, hu, hv, i + 1));
  Water turned = {c.h, c.v, c.u};
  Water s = water_flux(water_at(h, hv, hu, i - nx), turned), n = water_flux(turned, water_at(h, hv, hu, i + nx));
  h_out[i] = c.h - ratio * (e.h - w.h + n.h - s.h);
  hu_out[i] = c.u - ratio * (e.u - w.u + n.v - s.v);
  hv_out[i] = c.v - ratio * (e.v - w.v + n.u - s.u);
}

// Charged particles through a field on a grid: eight corners of the electric field, a turn in a magnetic one (Boris).
__global__ void push_particles(float4* __restrict__ place, float4* __restrict__ speed, const float4* __restrict__ field, int side, float bx, float by, float bz, float step, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float4 p = place[i], v = speed[i];
  int ix = (int)p.x, iy = (int)p.y, iz = (int)p.z;
  float fx = p.x - ix, fy = p.y - iy, fz = p.z - iz, e[3] = {0, 0, 0};
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    float4 f = field[((iz + (k >> 2)) * side + iy + (k >> 1 & 1)) * side + ix + (k & 1)];
    float w = (k & 1 ? fx : 1 - fx) * (k & 2 ? fy : 1 - fy) * (k & 4 ? fz : 1 - fz);
    e[0] += w * f.x;
    e[1] += w * f.y;
    e[2] += w * f.z;
  }
  float half = 0.5f * step * v.w;
  float ux = v.x + half * e[0], uy = v.y + half * e[1], uz = v.z + half * e[2];
  float tx = half * bx, ty = half * by, tz = half * bz;
  float scale = __fdividef(2.0f, 1 + tx * tx + ty * ty + tz * tz);
  float wx = ux + uy * tz - uz * ty, wy = uy + uz * tx - ux * tz, wz = uz + ux * ty - uy * tx;
  ux += scale * (wy * tz - wz * ty) + half * e[0];
  uy += scale * (wz * tx - wx * tz) + half * e[1];
  uz += scale * (wx * ty - wy * tx) + half * e[2];
  speed[i] = make_float4(ux, uy, uz, v.w);
  place[i] = make_float4(p.x + step * ux, p.y + step * uy, p.z + step * uz, p.w);
}

// A rotation that makes a matrix's entry `pq` zero.
__device__ __forceinline__ void rotate_pair(float& pp, float& qq, float& pq, float& rp, float& rq) {
  float d = qq - pp, x = d * d + 4 * pq * pq + 1e-30f, t = __fdividef(copysignf(2 * pq, d * pq), fabsf(d) + x * rsqrtf(x));
  float c = rsqrtf(1 + t * t), s = t * c, a = rp, b = rq;
  pp -= t * pq;
  qq += t * pq;
  pq = 0;
  rp = c * a - s * b;
  rq = s * a + c * b;
}

// Eigenvalues of symmetric 3x3 matrices, their six entries in planes, by three sweeps of rotations.
__global__ void eigenvalues3(const float* __restrict__ in, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float xx = in[i], yy = in[n + i], zz = in[2 * n + i], xy = in[3 * n + i], xz = in[4 * n + i], yz = in[5 * n + i];
#pragma unroll
  for (int sweep = 0; sweep < 3; ++sweep) {
    rotate_pair(xx, yy, xy, xz, yz);
    rotate_pair(xx, zz, xz, xy, yz);
    rotate_pair(yy, zz, yz, xy, xz);
  }
  float low = fminf(xx, fminf(yy, zz)), high = fmaxf(xx, fmaxf(yy, zz));
  out[i] = low;
  out[n + i] = xx + yy + zz - low - high;
  out[2 * n + i] = high;
}

// A series of Chebyshev polynomials in double precision by Clenshaw's recurrence, two arguments a thread.
__global__ void chebyshev_series(const double2* __restrict__ x, const double* __restrict__ coefficients, double2* __restrict__ out, int terms, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double2 at = x[i];
  double a1 = 0, a2 = 0, b1 = 0, b2 = 0;
  for (int k = terms - 1; k > 0; --k) {
    double c = coefficients[k], a = 2 * at.x * a1 - a2 + c, b = 2 * at.y * b1 - b2 + c;
    a2 = a1;
    a1 = a;
    b2 = b1;
    b1 = b;
  }
  double c = coefficients[0];
  out[i] = make_double2(at.x * a1 - a2 + c, at.y * b1 - b2 + c);
}

// Products of all columns with each other, of tiles of 32x32 only those on or above the diagonal: 2x2 a thread.
__global__ void gram32(const float* __restrict__ a, float* __restrict__ out, int rows, int cols) {
  __shared__ float left[16][32], right[16][32];
  if (blockIdx.y > blockIdx.x) return;
  int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx, x = t & 31, y = t >> 5;
  const float* l = a + blockIdx.y * 32 + x;
  const float* r = a + blockIdx.x * 32 + x;
  float c00 = 0, c01 = 0, c10 = 0, c11 = 0;
  for (int k = 0; k < rows; k += 16) {
    left[y][x] = l[(size_t)(k + y) * cols];
    left[y + 8][x] = l[(size_t)(k + y + 8) * cols];
    right[y][x] = r[(size_t)(k + y) * cols];
    right[y + 8][x] = r[(size_t)(k + y + 8) * cols];
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      float u0 = left[j][ty], u1 = left[j][ty + 16], v0 = right[j][tx], v1 = right[j][tx + 16];
      c00 += u0 * v0;
      c01 += u0 * v1;
      c10 += u1 * v0;
      c11 += u1 * v1;
    }
    __syncthreads();
  }
  float* to = out + (size_t)(blockIdx.y * 32 + ty) * cols + blockIdx.x * 32 + tx;
  to[0] = c00;
  to[16] = c01;
  to[(size_t)16 * cols] = c10;
  to[(size_t)16 * cols + 16] = c11;
}

// Lower triangles of square matrices packed row by row, an entry a thread, which finds its row by a root.
__global__ void pack_triangles(const float* __restrict__ in, float* __restrict__ out, int side) {
  int many = side * (side + 1) / 2, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= many) return;
  int row = (int)((sqrtf(8.0f * i + 1) - 1) * 0.5f);
  while (row * (row + 1) / 2 > i) --row;
  while ((row + 1) * (row + 2) / 2 <= i) ++row;
  out[(size_t)blockIdx.y * many + i] = in[((size_t)blockIdx.y * side + row) * side + i - row * (row + 1) / 2];
}

// y = a y' + x along rows of 2048: eight a thread, a scan of linear maps over the block of 256.
__global__ void linear_recurrence(const float4* __restrict__ a, const float4* __restrict__ x, float4* __restrict__ y) {
  __shared__ float2 totals[8];
  int t = threadIdx.x, lane = t & 31, warp = t >> 5;
  size_t at = (size_t)blockIdx.x * 512 + 2 * t;
  float4 a0 = a[at], a1 = a[at + 1], x0 = x[at], x1 = x[at + 1];
  float f[8] = {a0.x, a0.y, a0.z, a0.w, a1.x, a1.y, a1.z, a1.w}, g[8] = {x0.x, x0.y, x0.z, x0.w, x1.x, x1.y, x1.z, x1.w};
  float m = 1, b = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    m *= f[k];
    b = f[k] * b + g[k];
  }
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    float om = __shfl_up_sync(0xffffffffu, m, d), ob = __shfl_up_sync(0xffffffffu, b, d);
    if (lane >= d) {
      b += m * ob;
      m *= om;
    }
  }
  if (lane == 31) totals[warp] = make_float2(m, b);
  __syncthreads();
  float before = 0;
  for (int w = 0; w < warp; ++w) before = totals[w].x * before + totals[w].y;
  float own = m * before + b, v = __shfl_up_sync(0xffffffffu, own, 1);
  if (lane == 0) v = before;
#pragma unroll
  for (int k = 0; k < 8; ++k) g[k] = v = f[k] * v + g[k];
  y[at] = make_float4(g[0], g[1], g[2], g[3]);
  y[at + 1] = make_float4(g[4], g[5], g[6], g[7]);
}

// First, highest, lowest and last price of each window, its volume and mean price: a warp a window, whose ends vary.
__global__ void candles(const float* __restrict__ price, const int* __restrict__ volume, const int* __restrict__ start, float4* __restrict__ candle, float2* __restrict__ traded, int windows) {
  int w = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (w >= windows) return;
  int first = start[w], last = start[w + 1];
  float low = 1e30f, high = -1e30f, paid = 0, opened = 0, closed = 0;
  int many = 0;
  for (int i = first + lane; i < last; i += 32) {
    float p = price[i];
    int v = volume[i];
    low = fminf(low, p);
    high = fmaxf(high, p);
    paid += p * v;
    many += v;
    if (i == first) opened = p;
    if (i == last - 1) closed = p;
  }
#pragma unroll
  for (int d = 16; d; d >>= 1) {
    low = fminf(low, __shfl_xor_sync(0xffffffffu, low, d));
    high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, d));
    paid += __shfl_xor_sync(0xffffffffu, paid, d);
    closed += __shfl_xor_sync(0xffffffffu, closed, d);
  }
  many = __reduce_add_sync(0xffffffffu, many);
  if (lane == 0) {
    candle[w] = make_float4(opened, high, low, closed);
    traded[w] = make_float2(many, __fdividef(paid, many));
  }
}

// Largest of each 32 neighbours in a row: windows of twice the size five times, in two buffers of shared memory.
__global__ void sliding_maximum(const float* __restrict__ in, float* __restrict__ out, int n) {
  __shared__ float rows[2][512];
  int t = threadIdx.x, i = blockIdx.x * 481 + t;
  rows[0][t] = i < n + 31 ? in[i] : -1e30f;
  __syncthreads();
  int from = 0;
#pragma unroll
  for (int d = 1; d < 32; d <<= 1) {
    float v = rows[from][t];
    if (t + d < 512) v = fmaxf(v, rows[from][t + d]);
    rows[from ^ 1][t] = v;
    from ^= 1;
    __syncthreads();
  }
  if (t < 481 && i < n) out[i] = rows[from][t];
}
}
