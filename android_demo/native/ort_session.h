/*
 * What the JNI functions share: the table of ONNX Runtime's functions, and how errors become Java exceptions.
 *
 * Every function that can fail returns false (or a null) with a Java exception pending; its caller releases what it
 * holds and returns. Handles are pointers in a jlong: the Kotlin side owns them and passes each back once to be released.
 */
#ifndef LITENLP_ORT_SESSION_H
#define LITENLP_ORT_SESSION_H

#include <jni.h>
#include <stdbool.h>

#include "onnxruntime_c_api.h"

/* Of tensors that a bundle's state can have. */
#define MAX_RANK 8

/* A session with the names of its graph, so that a run needs none. */
typedef struct {
  OrtSession *ort;
  size_t input_count;
  size_t output_count;
  char **input_names;
  char **output_names;
} Session;

/* Set when the library is loaded, never changed. */
extern const OrtApi *ort;
extern const OrtEnv *ort_env;
extern OrtAllocator *ort_allocator;

/* False, with an OrtException pending, if status is an error. Releases the status. */
bool ort_succeeded(JNIEnv *env, OrtStatus *status);

/* Throw an OrtException with a message of the glue's own. */
void throw_invalid(JNIEnv *env, const char *message);

void throw_out_of_memory(JNIEnv *env, const char *what);

/* A Java string of UTF-8 text; bytes that are not UTF-8 become U+FFFD. Null with an exception pending on failure. */
jstring new_string(JNIEnv *env, const char *text);

#endif
