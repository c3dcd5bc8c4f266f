// Kernels on whose launches, measured on an H200, the figures of the model were chosen.
extern "C" {
__global__ void copy_f1(const float* __restrict__ in, float* __restrict__ out, int n){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) out[i]=in[i]; }
__global__ void copy_f2(const float2* __restrict__ in, float2* __restrict__ out, int n){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) out[i]=in[i]; }
__global__ void copy_f4(const float4* __restrict__ in, float4* __restrict__ out, int n){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) out[i]=in[i]; }
__global__ void copy_f1_grid(const float* __restrict__ in, float* __restrict__ out, int n){
  #pragma unroll 1
  for(int i=blockIdx.x*blockDim.x+threadIdx.x;i<n;i+=gridDim.x*blockDim.x) out[i]=in[i]; }
__global__ void copy_f4_grid(const float4* __restrict__ in, float4* __restrict__ out, int n){
  #pragma unroll 1
  for(int i=blockIdx.x*blockDim.x+threadIdx.x;i<n;i+=gridDim.x*blockDim.x) out[i]=in[i]; }
#define READ_ILP(NAME,T,U,ACC) \
__global__ void NAME(const T* __restrict__ in, float* sink, int n){ \
  extern __shared__ float sm[]; float acc=0.f; int step=gridDim.x*blockDim.x; \
  _Pragma("unroll 1") \
  for(int i=blockIdx.x*blockDim.x+threadIdx.x;i+(U-1)*step<n;i+=U*step){ T v[U]; \
    _Pragma("unroll") for(int u=0;u<U;u++) v[u]=in[i+u*step]; \
    _Pragma("unroll") for(int u=0;u<U;u++) acc+=ACC(v[u]); } \
  if(acc==-1.2345e30f) sink[0]=acc; }
#define A1(v) (v)
#define A4(v) ((v).x+(v).y+(v).z+(v).w)
READ_ILP(read_f1_u1,float,1,A1) READ_ILP(read_f1_u2,float,2,A1) READ_ILP(read_f1_u4,float,4,A1) READ_ILP(read_f1_u8,float,8,A1)
READ_ILP(read_f4_u1,float4,1,A4) READ_ILP(read_f4_u2,float4,2,A4) READ_ILP(read_f4_u4,float4,4,A4) READ_ILP(read_f4_u8,float4,8,A4)
__global__ void strided_read(const float* __restrict__ in, float* sink, int s, int n){ long i=blockIdx.x*(long)blockDim.x+threadIdx.x; if(i<n){ float v=in[i*s]; if(v==-1.2345e30f) sink[0]=v; } }
__global__ void strided_write(float* __restrict__ out, int s, int n){ long i=blockIdx.x*(long)blockDim.x+threadIdx.x; if(i<n) out[i*s]=(float)i; }
__global__ void strided_copy(const float* __restrict__ in, float* __restrict__ out, int s, int n){ long i=blockIdx.x*(long)blockDim.x+threadIdx.x; if(i<n) out[i]=in[i*s]; }
__global__ void offset_copy(const float* __restrict__ in, float* __restrict__ out, int off, int n){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) out[i]=in[i+off]; }
__global__ void gather4(const float* __restrict__ in, const int* __restrict__ idx, float* __restrict__ out, int n){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) out[i]=in[idx[i]]; }
__global__ void gather16(const float4* __restrict__ in, const int* __restrict__ idx, float4* __restrict__ out, int n){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) out[i]=in[idx[i]]; }
// one warp per row of R floats (R multiple of 32)
__global__ void transpose_naive(const float* __restrict__ in, float* __restrict__ out, int rows, int cols){ int x=blockIdx.x*32+threadIdx.x, y=blockIdx.y*32+threadIdx.y; if(x<cols&&y<rows) out[(long)x*rows+y]=in[(long)y*cols+x]; }
__global__ void transpose_naive_w(const float* __restrict__ in, float* __restrict__ out, int rows, int cols){ int y=blockIdx.x*32+threadIdx.x, x=blockIdx.y*32+threadIdx.y; if(x<cols&&y<rows) out[(long)x*rows+y]=in[(long)y*cols+x]; }
#define TILED(NAME,PAD,BY) \
__global__ void NAME(const float* __restrict__ in, float* __restrict__ out, int rows, int cols){ __shared__ float tile[32][32+PAD]; \
  int x=blockIdx.x*32+threadIdx.x, y=blockIdx.y*32+threadIdx.y; \
  for(int j=0;j<32;j+=BY) if(x<cols&&y+j<rows) tile[threadIdx.y+j][threadIdx.x]=in[(long)(y+j)*cols+x]; \
  __syncthreads(); \
  int col=blockIdx.y*32+threadIdx.x, row=blockIdx.x*32+threadIdx.y; \
  for(int j=0;j<32;j+=BY) if(col<rows&&row+j<cols) out[(long)(row+j)*rows+col]=tile[threadIdx.x][threadIdx.y+j]; }
TILED(transpose_tiled_pad0,0,32) TILED(transpose_tiled_pad1,1,32) TILED(transpose_tiled_pad0_8,0,8) TILED(transpose_tiled_pad1_8,1,8)
__global__ void aos_read(const float* __restrict__ in, float* __restrict__ out, int fields, int n){ int i=blockIdx.x*blockDim.x+threadIdx.x; if(i<n) out[i]=in[(long)i*fields]; }
// paged KV: token t lives at page table[t/P], slot t%P, tokbytes bytes each
__global__ void kv_lane4(const char* __restrict__ kv, const int* __restrict__ table, float* __restrict__ out, int P, int tokbytes, int n){ int t=blockIdx.x*blockDim.x+threadIdx.x; if(t<n){ long a=((long)table[t/P]*P+t%P)*tokbytes; out[t]=*(const float*)(kv+a); } }
__global__ void kv_lane16(const char* __restrict__ kv, const int* __restrict__ table, float* __restrict__ out, int P, int tokbytes, int n){ int t=blockIdx.x*blockDim.x+threadIdx.x; if(t<n){ long a=((long)table[t/P]*P+t%P)*tokbytes; float4 v=*(const float4*)(kv+a); out[t]=v.x+v.y+v.z+v.w; } }
__global__ void kv_warp(const char* __restrict__ kv, const int* __restrict__ table, float* __restrict__ out, int P, int tokbytes, int n){ int t=(blockIdx.x*blockDim.x+threadIdx.x)>>5, lane=threadIdx.x&31; if(t<n){ long a=((long)table[t/P]*P+t%P)*tokbytes; float acc=0; for(int b=lane*16;b<tokbytes;b+=512){ float4 v=*(const float4*)(kv+a+b); acc+=v.x+v.y+v.z+v.w; } if(acc==-1.2345e30f) out[t]=acc; } }
__global__ void l2_passes(const float4* __restrict__ in, float* sink, int n, int passes){ float acc=0; 
  #pragma unroll 1
  for(int p=0;p<passes;p++)
    #pragma unroll 4
    for(int i=blockIdx.x*blockDim.x+threadIdx.x;i<n;i+=gridDim.x*blockDim.x){ float4 v=__ldcg(in+i); acc+=A4(v);} 
  if(acc==-1.2345e30f) sink[0]=acc; }
__global__ void l1_passes(const float4* __restrict__ in, float* sink, int n, int passes){ float acc=0; const float4* b=in+(long)blockIdx.x*n;
  #pragma unroll 1
  for(int p=0;p<passes;p++)
    #pragma unroll 4
    for(int i=threadIdx.x;i<n;i+=blockDim.x){ float4 v=__ldca(b+i); acc+=A4(v);} 
  if(acc==-1.2345e30f) sink[0]=acc; }
__global__ void lds_stride4(float* sink, int s, int iters){ __shared__ float sm[8192]; for(int i=threadIdx.x;i<8192;i+=blockDim.x) sm[i]=i; __syncthreads(); float acc=0; int o=(threadIdx.x*s)&8191;
  #pragma unroll 8
  for(int k=0;k<iters;k++){ acc+=sm[(o+k*32)&8191]; } if(acc==-1.2345e30f) sink[0]=acc; }
__global__ void lds_stride16(float* sink, int s, int iters){ __shared__ float4 sm[2048]; for(int i=threadIdx.x;i<2048;i+=blockDim.x) sm[i]=make_float4(i,i,i,i); __syncthreads(); float acc=0; int o=(threadIdx.x*s)&2047;
  #pragma unroll 8
  for(int k=0;k<iters;k++){ float4 v=sm[(o+k*8)&2047]; acc+=A4(v); } if(acc==-1.2345e30f) sink[0]=acc; }
__global__ void matmul_tiled32(const float* __restrict__ A,const float* __restrict__ B,float* __restrict__ C,int n){ __shared__ float a[32][32],b[32][32]; int tx=threadIdx.x,ty=threadIdx.y,c=blockIdx.x*32+tx,r=blockIdx.y*32+ty; float acc=0; for(int k0=0;k0<n;k0+=32){ a[ty][tx]=A[r*n+k0+tx]; b[ty][tx]=B[(k0+ty)*n+c]; __syncthreads(); 
  #pragma unroll
  for(int k=0;k<32;k++) acc+=a[ty][k]*b[k][tx]; __syncthreads(); } C[r*n+c]=acc; }
}
