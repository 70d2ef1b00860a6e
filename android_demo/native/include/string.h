/* The few declarations that the glue needs from Android's C library, which is there at run time only. */
#ifndef LITENLP_STRING_H
#define LITENLP_STRING_H
#include <stddef.h>
void *memcpy(void *restrict target, const void *restrict source, size_t size);
void *memset(void *target, int value, size_t size);
size_t strlen(const char *text);
#endif
