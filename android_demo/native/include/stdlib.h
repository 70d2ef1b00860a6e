/* The few declarations that the glue needs from Android's C library, which is there at run time only. */
#ifndef LITENLP_STDLIB_H
#define LITENLP_STDLIB_H
#include <stddef.h>
void *calloc(size_t count, size_t size);
void free(void *block);
void *malloc(size_t size);
#endif
