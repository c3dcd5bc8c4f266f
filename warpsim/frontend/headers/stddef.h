#pragma once
typedef decltype(sizeof(0)) size_t;
typedef long ptrdiff_t;
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) ((size_t)&((type*)0)->member)
#endif
