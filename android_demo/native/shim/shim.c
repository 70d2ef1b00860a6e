/*
 * What differs between Android's C library and glibc, so that Android's own libraries run on a Linux machine in tests.
 *
 * The libraries' other imports are forwarded to glibc's functions of the same name by generated jumps (tools/testing/shim.py). A
 * function `shim_NAME` here takes the place of the jump for NAME. Never part of the app.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

_Noreturn static void unsupported(const char *what) {
  fprintf(stderr, "bionic shim: %s is not simulated\n", what);
  abort();
}

/* Only in bionic. */

_Noreturn void shim___assert2(const char *file, int line, const char *function, const char *failed) {
  fprintf(stderr, "%s:%d: %s: assertion \"%s\" failed\n", file, line, function, failed);
  abort();
}

int *shim___errno(void) { return &errno; }

char *shim___gnu_strerror_r(int error, char *buffer, size_t size) { return strerror_r(error, buffer, size); }

size_t shim___strlen_chk(const char *text, size_t size) {
  size_t length = strlen(text);
  if (length >= size) unsupported("a string that overflows its buffer");
  return length;
}

char *shim___strchr_chk(const char *text, int character, size_t size) {
  (void)size;
  return strchr(text, character);
}

char *shim___strrchr_chk(const char *text, int character, size_t size) {
  (void)size;
  return strrchr(text, character);
}

ssize_t shim___write_chk(int file, const void *buffer, size_t count, size_t size) {
  if (count > size) unsupported("a write beyond its buffer");
  return write(file, buffer, count);
}

/* No property is set, as on a system that knows none of them. */
int shim___system_property_get(const char *name, char *value) {
  (void)name;
  value[0] = 0;
  return 0;
}

void shim_android_set_abort_message(const char *message) { fprintf(stderr, "abort: %s\n", message); }

/* liblog: to the standard error stream, warnings (5) and up. */

int shim___android_log_vprint(int priority, const char *tag, const char *format, va_list arguments) {
  if (priority < 5) return 0;
  flockfile(stderr);
  fprintf(stderr, "%s: ", tag);
  int written = vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  funlockfile(stderr);
  return written;
}

int shim___android_log_print(int priority, const char *tag, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int written = shim___android_log_vprint(priority, tag, format, arguments);
  va_end(arguments);
  return written;
}

int shim___android_log_write(int priority, const char *tag, const char *text) {
  return shim___android_log_print(priority, tag, "%s", text);
}

_Noreturn void shim___android_log_assert(const char *condition, const char *tag, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "%s: assertion \"%s\" failed: ", tag, condition);
  if (format != NULL) vfprintf(stderr, format, arguments);
  abort();
}

/* Different numbers, layouts or results. */

/* The variant of POSIX, which glibc's headers hide behind the other. */
int __xpg_strerror_r(int error, char *buffer, size_t size);

int shim_strerror_r(int error, char *buffer, size_t size) { return __xpg_strerror_r(error, buffer, size); }

long shim_sysconf(int name) {
  switch (name) {
    case 0x27:
    case 0x28:
      return sysconf(_SC_PAGESIZE);
    case 0x60:
      return sysconf(_SC_NPROCESSORS_CONF);
    case 0x61:
      return sysconf(_SC_NPROCESSORS_ONLN);
    case 0x62:
      return sysconf(_SC_PHYS_PAGES);
    case 0x95:
      return sysconf(_SC_LEVEL2_CACHE_SIZE);
    default:
      errno = EINVAL;
      return -1;
  }
}

long shim_pathconf(const char *path, int name) {
  /* Bionic's list has one more at the front. */
  if (name < 1) unsupported("pathconf of _PC_FILESIZEBITS");
  return pathconf(path, name - 1);
}

int shim_nftw(const char *path, void *visit, int descriptors, int flags) {
  (void)path, (void)visit, (void)descriptors, (void)flags;
  unsupported("nftw");
}

/* Bionic's signal set has 64 bits, which are the first of glibc's. */
int shim_sigfillset(void *set) {
  memset(set, 0xff, 8);
  return 0;
}

int shim_pthread_sigmask(int how, const void *set, void *old_set) {
  sigset_t wide, old;
  sigemptyset(&wide);
  if (set != NULL) memcpy(&wide, set, 8);
  int result = pthread_sigmask(how, set == NULL ? NULL : &wide, old_set == NULL ? NULL : &old);
  if (result == 0 && old_set != NULL) memcpy(old_set, &old, 8);
  return result;
}

/* On arm64 glibc's types are 8 bytes longer than bionic's. What it keeps is shorter, but it clears the whole. */
int shim_pthread_mutex_init(void *mutex, const pthread_mutexattr_t *attributes) {
  pthread_mutex_t made;
  int result = pthread_mutex_init(&made, attributes);
  if (result == 0) memcpy(mutex, &made, 40);
  return result;
}

int shim_pthread_attr_init(void *attributes) {
  pthread_attr_t made;
  int result = pthread_attr_init(&made);
  if (result == 0) memcpy(attributes, &made, 56);
  return result;
}

/* Standard streams: in bionic's older form an array of three, elsewhere pointers. */

#define STREAM_BYTES 152

char shim___sF[3 * STREAM_BYTES];
FILE *shim_stdout, *shim_stderr;
__asm__(".symver shim___sF, __sF@LIBC");
__asm__(".symver shim_stdout, stdout@LIBC");
__asm__(".symver shim_stderr, stderr@LIBC");

__attribute__((constructor)) static void set_streams(void) {
  shim_stdout = stdout;
  shim_stderr = stderr;
}

static FILE *stream(void *file) {
  if (file == shim___sF) return stdin;
  if (file == shim___sF + STREAM_BYTES) return stdout;
  if (file == shim___sF + 2 * STREAM_BYTES) return stderr;
  return file;
}

int shim_vfprintf(void *file, const char *format, va_list arguments) {
  return vfprintf(stream(file), format, arguments);
}

int shim_fprintf(void *file, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int written = vfprintf(stream(file), format, arguments);
  va_end(arguments);
  return written;
}

int shim_fputc(int character, void *file) { return fputc(character, stream(file)); }

wint_t shim_fputwc(wchar_t character, void *file) { return fputwc(character, stream(file)); }

int shim_fputs(const char *text, void *file) { return fputs(text, stream(file)); }

size_t shim_fwrite(const void *items, size_t size, size_t count, void *file) {
  return fwrite(items, size, count, stream(file));
}

int shim_fflush(void *file) { return fflush(file == NULL ? NULL : stream(file)); }

int shim_ferror(void *file) { return ferror(stream(file)); }

int shim_getc(void *file) { return getc(stream(file)); }

wint_t shim_getwc(void *file) { return getwc(stream(file)); }

int shim_ungetc(int character, void *file) { return ungetc(character, stream(file)); }

wint_t shim_ungetwc(wint_t character, void *file) { return ungetwc(character, stream(file)); }

int shim_setvbuf(void *file, char *buffer, int mode, size_t size) { return setvbuf(stream(file), buffer, mode, size); }
