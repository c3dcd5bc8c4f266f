// One small kernel a group of SASS opcodes: three random words in, eight words out. Recorded on a GPU by opcode_vectors.py.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

typedef unsigned long long u64;
typedef long long s64;
__device__ __forceinline__ float F(unsigned v) { return __uint_as_float(v); }
__device__ __forceinline__ unsigned U(float v) { return __float_as_uint(v); }
__device__ __forceinline__ unsigned lo(u64 v) { return (unsigned)v; }
__device__ __forceinline__ unsigned hi(u64 v) { return (unsigned)(v >> 32); }
__device__ __forceinline__ u64 pair(unsigned h, unsigned l) { return (u64)h << 32 | l; }
__device__ __forceinline__ double D(unsigned h, unsigned l) { return __longlong_as_double((s64)pair(h, l)); }
__device__ __forceinline__ u64 bits(double v) { return (u64)__double_as_longlong(v); }
__device__ __forceinline__ __half2 H(unsigned v) { return *reinterpret_cast<__half2 *>(&v); }
__device__ __forceinline__ unsigned bits(__half2 v) { return *reinterpret_cast<unsigned *>(&v); }

#define OP(NAME, ...) \
    extern "C" __global__ void NAME(const unsigned *a, const unsigned *b, const unsigned *c, unsigned *out, int n) { \
        int t = blockIdx.x * blockDim.x + threadIdx.x; \
        unsigned x = a[t], y = b[t], z = c[t]; \
        int sx = (int)x, sy = (int)y, sz = (int)z; \
        float fx = F(x), fy = F(y), fz = F(z); \
        unsigned r0 = 0, r1 = 0, r2 = 0, r3 = 0, r4 = 0, r5 = 0, r6 = 0, r7 = 0; \
        (void)sx, (void)sy, (void)sz, (void)fx, (void)fy, (void)fz; \
        __VA_ARGS__ \
        out[t] = r0, out[n + t] = r1, out[2 * n + t] = r2, out[3 * n + t] = r3; \
        out[4 * n + t] = r4, out[5 * n + t] = r5, out[6 * n + t] = r6, out[7 * n + t] = r7; \
    }

#define ASM1(R, TEXT, A) asm(TEXT : "=r"(R) : "r"(A));
#define ASM2(R, TEXT, A, B) asm(TEXT : "=r"(R) : "r"(A), "r"(B));
#define ASM3(R, TEXT, A, B, C) asm(TEXT : "=r"(R) : "r"(A), "r"(B), "r"(C));
#define FASM1(R, TEXT, A) { float v; asm(TEXT : "=f"(v) : "f"(A)); R = U(v); }
#define FASM2(R, TEXT, A, B) { float v; asm(TEXT : "=f"(v) : "f"(A), "f"(B)); R = U(v); }
#define FASM3(R, TEXT, A, B, C) { float v; asm(TEXT : "=f"(v) : "f"(A), "f"(B), "f"(C)); R = U(v); }

// integers
OP(int_add, r0 = x + y + z; r1 = x - y - z; r2 = z - x; r3 = x + 12345u; r4 = y - 77u; r5 = ~x + y; r6 = -x; r7 = x + (y & 0xff);)
OP(int_add64, u64 p = pair(x, y); u64 q = pair(z, x); u64 s = p + q; u64 d = p - q; u64 e = s - pair(y, z); r0 = lo(s); r1 = hi(s); r2 = lo(d);
   r3 = hi(d); r4 = lo(e); r5 = hi(e); u64 m = 0 - p; r6 = lo(m); r7 = hi(m);)
OP(int_mul, r0 = x * y; r1 = x * y + z; r2 = __umulhi(x, y); r3 = (unsigned)__mulhi(sx, sy); r4 = x * 37u + y; r5 = (x & 0xffff) * (y & 0xffff);
   r6 = (unsigned)((short)x * (short)y); r7 = x * x;)
OP(int_wide, u64 p = (u64)x * y; u64 q = (u64)((s64)sx * sy); u64 s = (u64)x * y + pair(z, x); u64 d = (u64)((s64)sx * sy) + pair(y, z);
   r0 = lo(p); r1 = hi(p); r2 = lo(q); r3 = hi(q); r4 = lo(s); r5 = hi(s); r6 = lo(d); r7 = hi(d);)
OP(int_mad_hi, ASM3(r0, "mad.hi.u32 %0, %1, %2, %3;", x, y, z) ASM3(r1, "mad.hi.s32 %0, %1, %2, %3;", x, y, z) u64 p = pair(x, y) * pair(y, z);
   r2 = lo(p); r3 = hi(p); u64 h = __umul64hi(pair(x, y), pair(z, x)); r4 = lo(h); r5 = hi(h); s64 g = __mul64hi((s64)pair(x, y), (s64)pair(z, x));
   r6 = lo((u64)g); r7 = hi((u64)g);)
OP(int_lea, r0 = (x << 3) + y; r1 = (x << 1) + 100u; u64 p = ((u64)x << 2) + pair(y, z); u64 q = (u64)((s64)sx * 16) + pair(y, z);
   r2 = lo(p); r3 = hi(p); r4 = lo(q); r5 = hi(q); r6 = (y << 5) - z; u64 w = ((u64)x << 4) + (u64)z; r7 = hi(w);)
OP(shift, ASM2(r0, "shl.b32 %0, %1, %2;", x, y) ASM2(r1, "shr.u32 %0, %1, %2;", x, y) ASM2(r2, "shr.s32 %0, %1, %2;", x, y)
   r3 = __funnelshift_l(x, y, z); r4 = __funnelshift_r(x, y, z); r5 = __funnelshift_lc(x, y, z); r6 = __funnelshift_rc(x, y, z); r7 = x << (y & 31);)
OP(shift_small, unsigned k = y % 40u; ASM2(r0, "shl.b32 %0, %1, %2;", x, k) ASM2(r1, "shr.u32 %0, %1, %2;", x, k) ASM2(r2, "shr.s32 %0, %1, %2;", x, k)
   r3 = __funnelshift_lc(x, z, k); r4 = __funnelshift_rc(x, z, k); r5 = (unsigned)(sx >> 7); r6 = x >> 29; r7 = x << 13;)
OP(shift64, u64 p = pair(x, y); unsigned k = z % 70u; u64 l; u64 r; s64 s; asm("shl.b64 %0, %1, %2;" : "=l"(l) : "l"(p), "r"(k));
   asm("shr.u64 %0, %1, %2;" : "=l"(r) : "l"(p), "r"(k)); asm("shr.s64 %0, %1, %2;" : "=l"(s) : "l"(p), "r"(k)); r0 = lo(l); r1 = hi(l); r2 = lo(r);
   r3 = hi(r); r4 = lo((u64)s); r5 = hi((u64)s); u64 f = p >> 9; r6 = lo(f); r7 = hi(f);)
OP(logic, ASM3(r0, "lop3.b32 %0, %1, %2, %3, 0x96;", x, y, z) ASM3(r1, "lop3.b32 %0, %1, %2, %3, 0xe8;", x, y, z)
   ASM3(r2, "lop3.b32 %0, %1, %2, %3, 0x1b;", x, y, z) ASM3(r3, "lop3.b32 %0, %1, %2, %3, 0x5c;", x, y, z)
   ASM3(r4, "lop3.b32 %0, %1, %2, %3, 0x2d;", x, y, z) r5 = ~x; r6 = x & ~y; r7 = (x & 0xff00ff00u) | (y & 0x00ff00ffu);)
OP(predicates, bool p = x < y; bool q = sx < sz; bool r = y == z; bool s = sy >= sz; r0 = p && q || r; r1 = (p ^ q) | (r & s); r2 = p ? (q ? x : y) : (s ? z : 7u);
   r3 = (p == q) != s; r4 = x != 0 && (y == 0 || z != 0); r5 = !(p && q && s); r6 = p + q + r + s; r7 = (p & !q) ? sx : sy;)
OP(many_predicates, bool p0 = x & 1; bool p1 = x & 2; bool p2 = x & 4; bool p3 = x & 8; bool p4 = y & 1; bool p5 = y & 2; bool p6 = y & 4; bool p7 = y & 8;
   bool p8 = z & 1; for (int k = 0; k < (int)(z & 3); k++) { bool w = p0; p0 = p1 ^ p5; p1 = p2; p2 = p3 ^ p8; p3 = p4; p4 = p5; p5 = p6; p6 = p7; p7 = p8; p8 = w; }
   r0 = p0 | p1 << 1 | p2 << 2 | p3 << 3 | p4 << 4 | p5 << 5 | p6 << 6 | p7 << 7 | p8 << 8; r1 = p0 ? x : y; r2 = p8 && p3 ? z : x;)
OP(compare64, u64 p = pair(x, y); u64 q = pair(z, y ^ 1); s64 sp = (s64)p; s64 sq = (s64)q; r0 = p < q; r1 = sp < sq; r2 = p >= pair(x, z); r3 = sp > (s64)pair(x, z);
   u64 m = p < q ? p : q; r4 = lo(m); r5 = hi(m); s64 w = sp > sq ? sp : sq; r6 = lo((u64)w); r7 = hi((u64)w);)
OP(minmax, r0 = min(x, y); r1 = max(x, y); r2 = (unsigned)min(sx, sy); r3 = (unsigned)max(sx, sy); r4 = (unsigned)min(max(sx, -100), 100); r5 = (unsigned)abs(sx);
   r6 = (unsigned)max(sx + sy, sz); r7 = min(x + y, z);)
OP(minmax3, r0 = (unsigned)__vimax3_s32(sx, sy, sz); r1 = (unsigned)__vimin3_s32(sx, sy, sz); r2 = __vimax3_u32(x, y, z); r3 = __vimin3_u32(x, y, z);
   r4 = (unsigned)__viaddmax_s32(sx, sy, sz); r5 = __viaddmin_u32(x, y, z); r6 = (unsigned)__vimax_s32_relu(sx, sy); r7 = (unsigned)__viaddmax_s32_relu(sx, sy, sz);)
OP(minmax16, r0 = __vimax3_s16x2(x, y, z); r1 = __vimin3_u16x2(x, y, z); r2 = __viaddmax_s16x2(x, y, z); r3 = __viaddmin_u16x2(x, y, z); r4 = __vimax_s16x2_relu(x, y);
   r5 = __vmaxs2(x, y); r6 = __vminu2(x, y); r7 = __vadd2(x, y);)
OP(bit_counts, r0 = __popc(x); r1 = __clz(x); r2 = __ffs(x); r3 = __brev(x); ASM1(r4, "bfind.u32 %0, %1;", x) ASM1(r5, "bfind.s32 %0, %1;", x)
   ASM1(r6, "bfind.shiftamt.s32 %0, %1;", x) r7 = __popcll(pair(x, y)) + __clzll(pair(x & 3, y)) * 64;)
OP(bitfields, ASM3(r0, "bfe.u32 %0, %1, %2, %3;", x, y % 40u, z % 40u) ASM3(r1, "bfe.s32 %0, %1, %2, %3;", x, y % 40u, z % 40u)
   asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r2) : "r"(x), "r"(y), "r"(z % 40u), "r"(x % 37u)); ASM2(r3, "bmsk.clamp.b32 %0, %1, %2;", x % 40u, y % 40u)
   ASM2(r4, "bmsk.wrap.b32 %0, %1, %2;", x, y) ASM2(r5, "szext.clamp.s32 %0, %1, %2;", x, y % 40u) ASM2(r6, "szext.wrap.u32 %0, %1, %2;", x, y)
   ASM2(r7, "szext.wrap.s32 %0, %1, %2;", x, y))
OP(bytes, r0 = __byte_perm(x, y, z); ASM3(r1, "prmt.b32.f4e %0, %1, %2, %3;", x, y, z) ASM3(r2, "prmt.b32.b4e %0, %1, %2, %3;", x, y, z)
   ASM3(r3, "prmt.b32.rc8 %0, %1, %2, %3;", x, y, z) ASM3(r4, "prmt.b32.ecl %0, %1, %2, %3;", x, y, z) ASM3(r5, "prmt.b32.ecr %0, %1, %2, %3;", x, y, z)
   ASM3(r6, "prmt.b32.rc16 %0, %1, %2, %3;", x, y, z) ASM3(r7, "prmt.b32 %0, %1, %2, %3;", x, y, 0x8a91u))
OP(sums, r0 = __usad(x, y, z); r1 = (unsigned)__sad(sx, sy, z); r2 = __vabsdiffu4(x, y); r3 = __vsadu4(x, y); r4 = (unsigned)__dp4a(sx, sy, sz); r5 = __dp4a(x, y, z);
   r6 = (unsigned)__dp2a_lo(sx, sy, sz); r7 = __dp2a_hi(x, y, z);)
OP(mixed_dot, asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(r0) : "r"(x), "r"(y), "r"(z)); asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(r1) : "r"(x), "r"(y), "r"(z));
   asm("dp2a.lo.u32.s32 %0, %1, %2, %3;" : "=r"(r2) : "r"(x), "r"(y), "r"(z)); r3 = (unsigned)__hadd(sx, sy); r4 = __uhadd(x, y); r5 = __urhadd(x, y); r6 = __umul24(x, y);
   r7 = (unsigned)__mul24(sx, sy);)
OP(divide, unsigned d = y | 1u; int e = sy | 1; r0 = x / d; r1 = x % d; r2 = (unsigned)(sx / e); r3 = (unsigned)(sx % e); r4 = x / 7u; r5 = (unsigned)(sx / -13);
   r6 = x / (d & 0xffu | 1u); r7 = x % 1000003u;)
OP(divide64, u64 p = pair(x, y); u64 d = pair(z >> 8, x) | 1u; u64 q = p / d; u64 m = p % d; s64 e = (s64)(pair(z, x) | 1u); s64 w = (s64)p / e; r0 = lo(q); r1 = hi(q);
   r2 = lo(m); r3 = hi(m); r4 = lo((u64)w); r5 = hi((u64)w); u64 k = p / ((u64)y | 1u); r6 = lo(k); r7 = hi(k);)
OP(narrow, ASM1(r0, "{.reg .b16 v; cvt.sat.s16.s32 v, %1; cvt.s32.s16 %0, v;}", x) ASM1(r1, "cvt.sat.s8.s32 %0, %1;", x) ASM1(r2, "cvt.sat.u8.s32 %0, %1;", x)
   ASM1(r3, "cvt.sat.u8.u32 %0, %1;", x) r4 = (unsigned)(int)(signed char)x; r5 = (unsigned)(int)(short)y; r6 = (unsigned char)z; r7 = (unsigned short)z;)
OP(pack_integers, ASM3(r0, "cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;", x, y, z) ASM3(r1, "cvt.pack.sat.s8.s32.b32 %0, %1, %2, %3;", x, y, z)
   ASM2(r2, "cvt.pack.sat.s16.s32 %0, %1, %2;", x, y) ASM2(r3, "cvt.pack.sat.u16.s32 %0, %1, %2;", x, y))

// single precision
OP(float_add, r0 = U(fx + fy); r1 = U(fx - fy); FASM2(r2, "add.rz.f32 %0, %1, %2;", fx, fy) FASM2(r3, "add.rm.f32 %0, %1, %2;", fx, fy)
   FASM2(r4, "add.rp.f32 %0, %1, %2;", fx, fy) FASM2(r5, "add.sat.f32 %0, %1, %2;", fx, fy) FASM2(r6, "add.rn.f32 %0, %1, %2;", fx, fy) r7 = U(-fx - fabsf(fy));)
OP(float_mul, r0 = U(fx * fy); FASM2(r1, "mul.rz.f32 %0, %1, %2;", fx, fy) FASM2(r2, "mul.rm.f32 %0, %1, %2;", fx, fy) FASM2(r3, "mul.rp.f32 %0, %1, %2;", fx, fy)
   FASM2(r4, "mul.sat.f32 %0, %1, %2;", fx, fy) FASM2(r5, "mul.rn.f32 %0, %1, %2;", fx, fy) r6 = U(fx * 3.25f); r7 = U(fx * -fy);)
OP(float_fma, r0 = U(fmaf(fx, fy, fz)); FASM3(r1, "fma.rz.f32 %0, %1, %2, %3;", fx, fy, fz) FASM3(r2, "fma.rm.f32 %0, %1, %2, %3;", fx, fy, fz)
   FASM3(r3, "fma.rp.f32 %0, %1, %2, %3;", fx, fy, fz) FASM3(r4, "fma.rn.sat.f32 %0, %1, %2, %3;", fx, fy, fz) FASM3(r5, "fma.rn.f32 %0, %1, %2, %3;", fx, fy, fz)
   r6 = U(fmaf(-fx, fy, fz)); r7 = U(fmaf(fx, fy, -fz));)
OP(float_minmax, r0 = U(fminf(fx, fy)); r1 = U(fmaxf(fx, fy)); FASM2(r2, "min.NaN.f32 %0, %1, %2;", fx, fy) FASM2(r3, "max.NaN.f32 %0, %1, %2;", fx, fy)
   FASM2(r4, "min.f32 %0, %1, %2;", fx, fy) FASM2(r5, "max.f32 %0, %1, %2;", fx, fy) FASM2(r6, "max.xorsign.abs.f32 %0, %1, %2;", fx, fy) r7 = U(fmaxf(fabsf(fx), fy));)
OP(float_compare, r0 = fx < fy; r1 = fx <= fy; r2 = fx == fy; r3 = fx != fy; r4 = !(fx < fy); r5 = !(fx == fy); r6 = isnan(fx) | isinf(fy) << 1; r7 = U(fx > fy ? fx : fz);)
OP(float_compare_unordered, ASM2(r0, "{.reg .pred p; .reg .f32 a, b; mov.b32 a, %1; mov.b32 b, %2; setp.equ.f32 p, a, b; selp.u32 %0, 1, 0, p;}", x, y)
   ASM2(r1, "{.reg .pred p; .reg .f32 a, b; mov.b32 a, %1; mov.b32 b, %2; setp.ltu.f32 p, a, b; selp.u32 %0, 1, 0, p;}", x, y)
   ASM2(r2, "{.reg .pred p; .reg .f32 a, b; mov.b32 a, %1; mov.b32 b, %2; setp.geu.f32 p, a, b; selp.u32 %0, 1, 0, p;}", x, y)
   ASM2(r3, "{.reg .pred p; .reg .f32 a, b; mov.b32 a, %1; mov.b32 b, %2; setp.num.f32 p, a, b; selp.u32 %0, 1, 0, p;}", x, y)
   ASM2(r4, "{.reg .pred p; .reg .f32 a, b; mov.b32 a, %1; mov.b32 b, %2; setp.nan.f32 p, a, b; selp.u32 %0, 1, 0, p;}", x, y)
   ASM2(r5, "{.reg .pred p; .reg .f32 a, b; mov.b32 a, %1; mov.b32 b, %2; setp.ne.ftz.f32 p, a, b; selp.u32 %0, 1, 0, p;}", x, y)
   ASM2(r6, "{.reg .f32 a, b; mov.b32 a, %1; mov.b32 b, %2; set.gt.f32.f32 a, a, b; mov.b32 %0, a;}", x, y)
   ASM2(r7, "{.reg .f32 a, b; mov.b32 a, %1; mov.b32 b, %2; set.le.u32.f32 %0, a, b;}", x, y))
OP(float_round, r0 = U(floorf(fx)); r1 = U(ceilf(fx)); r2 = U(truncf(fx)); r3 = U(rintf(fx)); FASM1(r4, "cvt.rni.f32.f32 %0, %1;", fx) FASM1(r5, "cvt.sat.f32.f32 %0, %1;", fx)
   r6 = U(roundf(fx)); r7 = U(fx - floorf(fx));)
OP(float_to_int, r0 = (unsigned)(int)fx; r1 = (unsigned)fx; r2 = (unsigned)__float2int_rn(fx); r3 = (unsigned)__float2int_rd(fx); r4 = (unsigned)__float2int_ru(fx);
   r5 = __float2uint_rn(fx); r6 = __float2uint_rd(fx); r7 = __float2uint_ru(fx);)
OP(float_to_small, asm("{.reg .s16 v; cvt.rzi.s16.f32 v, %1; cvt.s32.s16 %0, v;}" : "=r"(r0) : "f"(fx)); asm("{.reg .u16 v; cvt.rni.u16.f32 v, %1; cvt.u32.u16 %0, v;}" : "=r"(r1) : "f"(fx));
   asm("cvt.rzi.s8.f32 %0, %1;" : "=r"(r2) : "f"(fx)); asm("cvt.rzi.u8.f32 %0, %1;" : "=r"(r3) : "f"(fx)); u64 p = (u64)(s64)fx; r4 = lo(p); r5 = hi(p); u64 q = (u64)fx; r6 = lo(q); r7 = hi(q);)
OP(int_to_float, r0 = U((float)sx); r1 = U((float)x); r2 = U(__int2float_rz(sx)); r3 = U(__int2float_rd(sx)); r4 = U(__uint2float_ru(x)); r5 = U((float)(short)x);
   r6 = U((float)(unsigned char)(y >> 8)); r7 = U((float)(signed char)y);)
OP(long_to_float, s64 p = (s64)pair(x, y); r0 = U((float)p); r1 = U((float)(u64)p); r2 = U(__ll2float_rz(p)); r3 = U(__ull2float_ru((u64)p)); u64 d = bits((double)p); r4 = lo(d); r5 = hi(d);
   u64 e = bits((double)(u64)p); r6 = lo(e); r7 = hi(e);)
OP(float_half, r0 = __half_as_ushort(__float2half_rn(fx)); r1 = __half_as_ushort(__float2half_rz(fx)); r2 = U(__half2float(__ushort_as_half((unsigned short)y)));
   r3 = U(__half2float(__ushort_as_half((unsigned short)(y >> 16)))); r4 = bits(__floats2half2_rn(fx, fy)); __nv_bfloat162 w = __floats2bfloat162_rn(fx, fy);
   r5 = *reinterpret_cast<unsigned *>(&w); r6 = __bfloat16_as_ushort(__float2bfloat16_rn(fx)); asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(r7) : "f"(fx), "f"(fy));)
OP(half_int, __half h = __ushort_as_half((unsigned short)x); r0 = (unsigned)__half2int_rz(h); r1 = __half2uint_rn(h); r2 = (unsigned)(int)__half2short_rd(h);
   r3 = __half_as_ushort(__int2half_rn(sy)); r4 = __half_as_ushort(__uint2half_rz(y)); r5 = __half_as_ushort(__short2half_rn((short)y)); r6 = __half_as_ushort(hfloor(h)); r7 = __half_as_ushort(hrint(h));)
OP(float_divide, r0 = U(fx / fy); r1 = U(__frcp_rn(fx)); r2 = U(__fsqrt_rn(fabsf(fx))); r3 = U(__fdiv_rz(fx, fy)); r4 = U(fx / 3.0f); r5 = U(__fdividef(fx, fy)); r6 = U(1.0f / fy);
   r7 = U(fmodf(fx, 7.5f));)

// approximations: the last bits are the hardware's
OP(approximate, FASM1(r0, "ex2.approx.f32 %0, %1;", fx) FASM1(r1, "lg2.approx.f32 %0, %1;", fx) FASM1(r2, "rcp.approx.f32 %0, %1;", fx) FASM1(r3, "rsqrt.approx.f32 %0, %1;", fx)
   FASM1(r4, "sqrt.approx.f32 %0, %1;", fx) FASM1(r5, "ex2.approx.ftz.f32 %0, %1;", fx) FASM1(r6, "rcp.approx.ftz.f32 %0, %1;", fx) FASM1(r7, "rsqrt.approx.ftz.f32 %0, %1;", fx))
OP(approximate_trig, float s = fx - truncf(fx); FASM1(r0, "sin.approx.f32 %0, %1;", s) FASM1(r1, "cos.approx.f32 %0, %1;", s) FASM1(r2, "tanh.approx.f32 %0, %1;", fx) r3 = U(__expf(s)); r4 = U(__logf(fabsf(fx)));
   r5 = U(__powf(fabsf(s), 1.5f)); r6 = U(expf(s)); r7 = U(sinf(s));)

// double precision: the first two words are one operand, the last two the other
OP(double_add, double p = D(x, y); double q = D(y, z); u64 s = bits(p + q); u64 d = bits(p - q); u64 m = bits(__dadd_rz(p, q)); u64 u = bits(__dadd_ru(p, q)); r0 = lo(s); r1 = hi(s); r2 = lo(d); r3 = hi(d);
   r4 = lo(m); r5 = hi(m); r6 = lo(u); r7 = hi(u);)
OP(double_mul, double p = D(x, y); double q = D(y, z); u64 s = bits(p * q); u64 d = bits(__dmul_rz(p, q)); u64 m = bits(fma(p, q, D(z, x))); u64 u = bits(__fma_rd(p, q, D(z, x))); r0 = lo(s); r1 = hi(s);
   r2 = lo(d); r3 = hi(d); r4 = lo(m); r5 = hi(m); r6 = lo(u); r7 = hi(u);)
OP(double_compare, double p = D(x, y); double q = D(z, x); r0 = p < q; r1 = p == p; r2 = !(p >= q); u64 m = bits(fmin(p, q)); r3 = lo(m); r4 = hi(m); u64 w = bits(fmax(p, q)); r5 = lo(w); r6 = hi(w); r7 = p != q;)
OP(double_convert, double p = D(x, y); r0 = (unsigned)(int)p; r1 = (unsigned)p; s64 l = (s64)p; r2 = lo((u64)l); r3 = hi((u64)l); r4 = U((float)p); r5 = U(__double2float_rz(p)); u64 d = bits((double)fz); r6 = lo(d); r7 = hi(d);)
OP(double_from, u64 d = bits((double)sx); u64 e = bits((double)x); r0 = lo(d); r1 = hi(d); r2 = lo(e); r3 = hi(e); u64 f = bits(floor(D(x, y))); r4 = lo(f); r5 = hi(f); u64 g = bits(rint(D(x, y))); r6 = lo(g); r7 = hi(g);)
OP(double_divide, double p = D(x, y); double q = D(z, x); u64 d = bits(p / q); u64 s = bits(sqrt(fabs(p))); r0 = lo(d); r1 = hi(d); r2 = lo(s); r3 = hi(s); u64 i = bits(1.0 / q); r4 = lo(i); r5 = hi(i);)

// two halves in a word
OP(half2_add, r0 = bits(__hadd2(H(x), H(y))); r1 = bits(__hsub2(H(x), H(y))); r2 = bits(__hadd2_sat(H(x), H(y))); r3 = bits(__hadd2(H(x), __low2half2(H(y)))); r4 = bits(__hadd2(H(x), __high2half2(H(y))));
   r5 = bits(__hneg2(H(x))); r6 = bits(__habs2(H(x))); r7 = bits(__hadd2(H(x), __float2half2_rn(1.5f)));)
OP(half2_mul, r0 = bits(__hmul2(H(x), H(y))); r1 = bits(__hmul2_sat(H(x), H(y))); r2 = bits(__hfma2(H(x), H(y), H(z))); r3 = bits(__hfma2_sat(H(x), H(y), H(z))); r4 = bits(__hfma2_relu(H(x), H(y), H(z)));
   r5 = bits(__hmul2(H(x), __high2half2(H(y)))); r6 = bits(__hfma2(H(x), __low2half2(H(y)), H(z))); r7 = bits(__hfma2(__hneg2(H(x)), H(y), H(z)));)
OP(half2_compare, r0 = bits(__hmin2(H(x), H(y))); r1 = bits(__hmax2(H(x), H(y))); r2 = bits(__hmax2_nan(H(x), H(y))); r3 = bits(__hlt2(H(x), H(y))); r4 = bits(__hequ2(H(x), H(y)));
   r5 = __hbgt2(H(x), H(y)); r6 = __hlt2_mask(H(x), H(y)); r7 = __heq(__low2half(H(x)), __high2half(H(y)));)
OP(bfloat2, __nv_bfloat162 p = *reinterpret_cast<__nv_bfloat162 *>(&x); __nv_bfloat162 q = *reinterpret_cast<__nv_bfloat162 *>(&y); __nv_bfloat162 s = *reinterpret_cast<__nv_bfloat162 *>(&z);
   __nv_bfloat162 v = __hfma2(p, q, s); r0 = *reinterpret_cast<unsigned *>(&v); v = __hadd2(p, q); r1 = *reinterpret_cast<unsigned *>(&v); v = __hmul2(p, q); r2 = *reinterpret_cast<unsigned *>(&v);
   v = __hmax2(p, q); r3 = *reinterpret_cast<unsigned *>(&v); v = __hmin2(p, q); r4 = *reinterpret_cast<unsigned *>(&v); r5 = U(__low2float(p)); r6 = U(__high2float(p)); r7 = __hblt2(p, q);)

// lanes
OP(shuffles, r0 = __shfl_sync(~0u, x, y); r1 = __shfl_up_sync(~0u, x, 3); r2 = __shfl_down_sync(~0u, x, 5); r3 = __shfl_xor_sync(~0u, x, 9); r4 = __shfl_sync(~0u, x, y, 8); r5 = __shfl_up_sync(~0u, x, 2, 16);
   r6 = __shfl_down_sync(~0u, x, 1, 4); r7 = __shfl_xor_sync(~0u, x, 12, 8);)
OP(votes, r0 = __ballot_sync(~0u, x & 1); r1 = __any_sync(~0u, (x & 63) == 1); r2 = __all_sync(~0u, (y & 63) != 1); r3 = __ballot_sync(~0u, sx < sy); r4 = __activemask();
   if (z & 1) { r5 = __activemask(); r6 = __ballot_sync(__activemask(), y & 2); } r7 = __popc(r3 & ((1u << (threadIdx.x & 31)) - 1));)
OP(matches, r0 = __match_any_sync(~0u, x & 7); int p; r1 = __match_all_sync(~0u, x >> 31, &p); r2 = p; r3 = __match_any_sync(~0u, y & 1); r4 = __match_any_sync(~0u, (u64)(z & 3) << 33);
   asm("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(r5));)
OP(reductions, r0 = __reduce_add_sync(~0u, x); r1 = __reduce_min_sync(~0u, x); r2 = __reduce_max_sync(~0u, x); r3 = (unsigned)__reduce_min_sync(~0u, sx); r4 = (unsigned)__reduce_max_sync(~0u, sx);
   r5 = __reduce_and_sync(~0u, x | y); r6 = __reduce_or_sync(~0u, x & y & z); r7 = __reduce_xor_sync(~0u, x);)
OP(specials, asm("mov.u32 %0, %%laneid;" : "=r"(r0)); asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r1)); asm("mov.u32 %0, %%lanemask_ge;" : "=r"(r2)); r3 = threadIdx.x; r4 = blockIdx.x; r5 = blockDim.x * gridDim.x;
   asm("mov.u32 %0, %%lanemask_eq;" : "=r"(r6)); r7 = blockDim.y + gridDim.z;)

// global and shared atomics, each lane its own word
#define GLOBAL_ATOMIC(R, ROW, CALL) { unsigned *p = out + ROW * n + t; *p = x; R = CALL; R = R * 3u + *(volatile unsigned *)p; }
OP(atomics, GLOBAL_ATOMIC(r0, 0, atomicAdd(p, y)) GLOBAL_ATOMIC(r1, 1, atomicMin(p, y)) GLOBAL_ATOMIC(r2, 2, (unsigned)atomicMax((int *)p, sy)) GLOBAL_ATOMIC(r3, 3, atomicAnd(p, y))
   GLOBAL_ATOMIC(r4, 4, atomicXor(p, y)) GLOBAL_ATOMIC(r5, 5, atomicExch(p, y)) GLOBAL_ATOMIC(r6, 6, atomicCAS(p, x ^ (y & 1), z)) GLOBAL_ATOMIC(r7, 7, atomicInc(p, y)))
OP(atomics_more, GLOBAL_ATOMIC(r0, 0, atomicDec(p, y)) GLOBAL_ATOMIC(r1, 1, atomicOr(p, y)) GLOBAL_ATOMIC(r2, 2, U(atomicAdd((float *)p, fy))) GLOBAL_ATOMIC(r3, 3, bits(atomicAdd((__half2 *)p, H(y))))
   GLOBAL_ATOMIC(r4, 4, (unsigned)atomicMin((int *)p, sy)) GLOBAL_ATOMIC(r5, 5, atomicSub(p, y)) GLOBAL_ATOMIC(r6, 6, atomicMax(p, y)))
#define SHARED_ATOMIC(R, CALL) { __syncwarp(); *p = x; R = CALL; R = R * 3u + *(volatile unsigned *)p; }
OP(shared_atomics, __shared__ unsigned words[64]; unsigned *p = words + threadIdx.x; SHARED_ATOMIC(r0, atomicAdd(p, y)) SHARED_ATOMIC(r1, atomicMin(p, y)) SHARED_ATOMIC(r2, (unsigned)atomicMax((int *)p, sy))
   SHARED_ATOMIC(r3, atomicAnd(p, y)) SHARED_ATOMIC(r4, atomicXor(p, y)) SHARED_ATOMIC(r5, atomicExch(p, y)) SHARED_ATOMIC(r6, atomicCAS(p, x ^ (y & 1), z)) SHARED_ATOMIC(r7, atomicInc(p, y)))
OP(shared_adds, __shared__ unsigned sums[8]; if (threadIdx.x < 8) sums[threadIdx.x] = threadIdx.x; __syncthreads(); atomicAdd(&sums[0], x); atomicAdd(&sums[1], 1u); atomicMin(&sums[2], y); atomicOr(&sums[3], z);
   atomicXor(&sums[4], x); atomicMax((int *)&sums[5], sz); __syncthreads(); r0 = sums[0]; r1 = sums[1]; r2 = sums[2]; r3 = sums[3]; r4 = sums[4]; r5 = sums[5]; r6 = sums[6]; r7 = sums[7];)

// matrices from shared memory
OP(matrices, __shared__ __align__(16) unsigned rows[2][128]; unsigned (&mine)[128] = rows[threadIdx.x / 32]; unsigned lane = threadIdx.x & 31; mine[lane] = x; mine[32 + lane] = y; mine[64 + lane] = z; mine[96 + lane] = x ^ y; __syncwarp();
   unsigned at = (unsigned)__cvta_generic_to_shared(&mine[(lane * 5 % 32) * 4]);
   asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(at) : "memory");
   asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(r4), "=r"(r5) : "r"(at) : "memory");
   asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r6) : "r"(at) : "memory"); r7 = lane;)
