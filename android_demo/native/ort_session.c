/* Sessions: open, names, shapes, run, close. Implements the natives of dev.litenlp.app.engine.OrtNative that take a session. */
#include "ort_session.h"

#include <stdlib.h>

/* An array of handles is an array of pointers. */
_Static_assert(sizeof(jlong) == sizeof(OrtValue *), "64-bit only");

typedef OrtStatus *(ORT_API_CALL *CountFunction)(const OrtSession *, size_t *);
typedef OrtStatus *(ORT_API_CALL *NameFunction)(const OrtSession *, size_t, OrtAllocator *, char **);

static void free_names(char **names, size_t count) {
  if (names == NULL) return;
  for (size_t i = 0; i < count; i++) {
    /* Only a null pointer can make this fail, and the unread places of a half-filled table are null. */
    if (names[i] != NULL) ort->ReleaseStatus(ort->AllocatorFree(ort_allocator, names[i]));
  }
  free(names);
}

static void free_session(Session *session) {
  free_names(session->input_names, session->input_count);
  free_names(session->output_names, session->output_count);
  if (session->ort != NULL) ort->ReleaseSession(session->ort);
  free(session);
}

static bool read_names(JNIEnv *env, OrtSession *session, CountFunction count_of, NameFunction name_of, size_t *count,
                       char ***names) {
  if (!ort_succeeded(env, count_of(session, count))) return false;
  /* One more than needed: a graph without inputs is no lack of memory. */
  *names = calloc(*count + 1, sizeof(char *));
  if (*names == NULL) {
    throw_out_of_memory(env, "names of a graph");
    return false;
  }
  for (size_t i = 0; i < *count; i++) {
    if (!ort_succeeded(env, name_of(session, i, ort_allocator, &(*names)[i]))) return false;
  }
  return true;
}

static OrtSessionOptions *create_options(JNIEnv *env, jint threads) {
  OrtSessionOptions *options;
  if (!ort_succeeded(env, ort->CreateSessionOptions(&options))) return NULL;
  /*
   * Memory patterns are remembered for every combination of input sizes, and almost every sentence brings a new one: the memory
   * would grow with use.
   */
  if (ort_succeeded(env, ort->SetIntraOpNumThreads(options, threads)) &&
      ort_succeeded(env, ort->SetInterOpNumThreads(options, 1)) &&
      ort_succeeded(env, ort->DisableMemPattern(options))) {
    return options;
  }
  ort->ReleaseSessionOptions(options);
  return NULL;
}

/* The bytes of a Java array as a C string, to be freed; null with an exception pending. */
static char *copy_text(JNIEnv *env, jbyteArray bytes) {
  jsize length = (*env)->GetArrayLength(env, bytes);
  char *text = malloc((size_t)length + 1);
  if (text == NULL) {
    throw_out_of_memory(env, "path of a graph");
    return NULL;
  }
  (*env)->GetByteArrayRegion(env, bytes, 0, length, (jbyte *)text);
  text[length] = 0;
  return text;
}

JNIEXPORT jlong JNICALL Java_dev_litenlp_app_engine_OrtNative_openSession(JNIEnv *env, jclass class, jbyteArray path,
                                                                          jint threads) {
  (void)class;
  char *file = copy_text(env, path);
  if (file == NULL) return 0;
  OrtSessionOptions *options = create_options(env, threads);
  if (options == NULL) {
    free(file);
    return 0;
  }
  Session *session = calloc(1, sizeof(Session));
  if (session == NULL) {
    throw_out_of_memory(env, "session");
  } else if (!ort_succeeded(env, ort->CreateSession(ort_env, file, options, &session->ort)) ||
             !read_names(env, session->ort, ort->SessionGetInputCount, ort->SessionGetInputName, &session->input_count,
                         &session->input_names) ||
             !read_names(env, session->ort, ort->SessionGetOutputCount, ort->SessionGetOutputName,
                         &session->output_count, &session->output_names)) {
    free_session(session);
    session = NULL;
  }
  ort->ReleaseSessionOptions(options);
  free(file);
  return (jlong)session;
}

JNIEXPORT void JNICALL Java_dev_litenlp_app_engine_OrtNative_closeSession(JNIEnv *env, jclass class, jlong handle) {
  (void)env, (void)class;
  free_session((Session *)handle);
}

static jobjectArray java_names(JNIEnv *env, const char *const *names, size_t count) {
  jclass string = (*env)->FindClass(env, "java/lang/String");
  if (string == NULL) return NULL;
  jobjectArray array = (*env)->NewObjectArray(env, (jsize)count, string, NULL);
  for (size_t i = 0; array != NULL && i < count; i++) {
    jstring name = new_string(env, names[i]);
    if (name == NULL) return NULL;
    (*env)->SetObjectArrayElement(env, array, (jsize)i, name);
    (*env)->DeleteLocalRef(env, name);
  }
  return array;
}

JNIEXPORT jobjectArray JNICALL Java_dev_litenlp_app_engine_OrtNative_inputNames(JNIEnv *env, jclass class,
                                                                                jlong handle) {
  (void)class;
  Session *session = (Session *)handle;
  return java_names(env, (const char *const *)session->input_names, session->input_count);
}

JNIEXPORT jobjectArray JNICALL Java_dev_litenlp_app_engine_OrtNative_outputNames(JNIEnv *env, jclass class,
                                                                                 jlong handle) {
  (void)class;
  Session *session = (Session *)handle;
  return java_names(env, (const char *const *)session->output_names, session->output_count);
}

typedef struct {
  size_t rank;
  int64_t sizes[MAX_RANK];
  const char *symbols[MAX_RANK]; /* of the type that the shape was read from */
} Shape;

static bool read_shape(JNIEnv *env, const OrtTypeInfo *type, Shape *shape) {
  const OrtTensorTypeAndShapeInfo *info;
  if (!ort_succeeded(env, ort->CastTypeInfoToTensorInfo(type, &info))) return false;
  if (info == NULL) {
    throw_invalid(env, "input: expected a tensor, found another value");
    return false;
  }
  if (!ort_succeeded(env, ort->GetDimensionsCount(info, &shape->rank))) return false;
  if (shape->rank > MAX_RANK) {
    throw_invalid(env, "input: expected at most 8 dimensions, found more");
    return false;
  }
  return ort_succeeded(env, ort->GetDimensions(info, shape->sizes, shape->rank)) &&
         ort_succeeded(env, ort->GetSymbolicDimensions(info, shape->symbols, shape->rank));
}

/* The type of an input, to be released, and its shape; null with an exception pending. */
static OrtTypeInfo *read_input(JNIEnv *env, jlong handle, jint input, Shape *shape) {
  OrtTypeInfo *type;
  if (!ort_succeeded(env, ort->SessionGetInputTypeInfo(((Session *)handle)->ort, (size_t)input, &type))) return NULL;
  if (read_shape(env, type, shape)) return type;
  ort->ReleaseTypeInfo(type);
  return NULL;
}

JNIEXPORT jlongArray JNICALL Java_dev_litenlp_app_engine_OrtNative_inputSizes(JNIEnv *env, jclass class, jlong handle,
                                                                              jint input) {
  (void)class;
  Shape shape;
  OrtTypeInfo *type = read_input(env, handle, input, &shape);
  if (type == NULL) return NULL;
  jlongArray sizes = (*env)->NewLongArray(env, (jsize)shape.rank);
  if (sizes != NULL) (*env)->SetLongArrayRegion(env, sizes, 0, (jsize)shape.rank, (const jlong *)shape.sizes);
  ort->ReleaseTypeInfo(type);
  return sizes;
}

JNIEXPORT jobjectArray JNICALL Java_dev_litenlp_app_engine_OrtNative_inputSymbols(JNIEnv *env, jclass class,
                                                                                  jlong handle, jint input) {
  (void)class;
  Shape shape;
  OrtTypeInfo *type = read_input(env, handle, input, &shape);
  if (type == NULL) return NULL;
  jobjectArray symbols = java_names(env, shape.symbols, shape.rank);
  ort->ReleaseTypeInfo(type);
  return symbols;
}

static jlongArray run_session(JNIEnv *env, Session *session, OrtValue **values) {
  OrtValue **inputs = values;
  OrtValue **outputs = values + session->input_count;
  size_t count = session->output_count;
  if (!ort_succeeded(env, ort->Run(session->ort, NULL, (const char *const *)session->input_names,
                                   (const OrtValue *const *)inputs, session->input_count,
                                   (const char *const *)session->output_names, count, outputs))) {
    return NULL;
  }
  jlongArray handles = (*env)->NewLongArray(env, (jsize)count);
  if (handles == NULL) {
    for (size_t i = 0; i < count; i++) ort->ReleaseValue(outputs[i]);
    return NULL;
  }
  (*env)->SetLongArrayRegion(env, handles, 0, (jsize)count, (const jlong *)outputs);
  return handles;
}

JNIEXPORT jlongArray JNICALL Java_dev_litenlp_app_engine_OrtNative_run(JNIEnv *env, jclass class, jlong handle,
                                                                       jlongArray inputs) {
  (void)class;
  Session *session = (Session *)handle;
  if ((size_t)(*env)->GetArrayLength(env, inputs) != session->input_count) {
    throw_invalid(env, "run: expected one tensor for each input of the graph, found another number");
    return NULL;
  }
  OrtValue **values = calloc(session->input_count + session->output_count + 1, sizeof(OrtValue *));
  if (values == NULL) {
    throw_out_of_memory(env, "run");
    return NULL;
  }
  (*env)->GetLongArrayRegion(env, inputs, 0, (jsize)session->input_count, (jlong *)values);
  jlongArray outputs = run_session(env, session, values);
  free(values);
  return outputs;
}
