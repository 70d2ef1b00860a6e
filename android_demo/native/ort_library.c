/* Loading: finds ONNX Runtime's table of functions, makes the process's one environment, and turns errors into Java's. */
#include <string.h>

#include "ort_session.h"

/*
 * The version of the table that is asked for: all that the glue calls was there by then, so that a later libonnxruntime.so than
 * the headers', or an earlier one, serves as well. The table only grows.
 */
#define API_VERSION 8

const OrtApi *ort;
const OrtEnv *ort_env;
OrtAllocator *ort_allocator;

static jclass exception_class;
static jmethodID exception_constructor;
static jclass string_class;
static jmethodID string_constructor;
static jstring utf8;

static jclass find_class(JNIEnv *env, const char *name) {
  jclass local = (*env)->FindClass(env, name);
  if (local == NULL) return NULL;
  jclass global = (*env)->NewGlobalRef(env, local);
  (*env)->DeleteLocalRef(env, local);
  return global;
}

jstring new_string(JNIEnv *env, const char *text) {
  /* NewStringUTF wants Java's own variant of UTF-8 and may abort on anything else. */
  jsize length = (jsize)strlen(text);
  jbyteArray bytes = (*env)->NewByteArray(env, length);
  if (bytes == NULL) return NULL;
  (*env)->SetByteArrayRegion(env, bytes, 0, length, (const jbyte *)text);
  jstring string = (*env)->NewObject(env, string_class, string_constructor, bytes, utf8);
  (*env)->DeleteLocalRef(env, bytes);
  return string;
}

static void throw_ort(JNIEnv *env, jint code, const char *message) {
  jstring text = new_string(env, message);
  if (text == NULL) return;
  jobject exception = (*env)->NewObject(env, exception_class, exception_constructor, code, text);
  if (exception != NULL) (*env)->Throw(env, exception);
}

bool ort_succeeded(JNIEnv *env, OrtStatus *status) {
  if (status == NULL) return true;
  throw_ort(env, (jint)ort->GetErrorCode(status), ort->GetErrorMessage(status));
  ort->ReleaseStatus(status);
  return false;
}

void throw_invalid(JNIEnv *env, const char *message) { throw_ort(env, ORT_INVALID_ARGUMENT, message); }

void throw_out_of_memory(JNIEnv *env, const char *what) {
  jclass class = (*env)->FindClass(env, "java/lang/OutOfMemoryError");
  if (class != NULL) (*env)->ThrowNew(env, class, what);
}

static bool find_java(JNIEnv *env) {
  exception_class = find_class(env, "dev/litenlp/app/engine/OrtException");
  if (exception_class == NULL) return false;
  exception_constructor = (*env)->GetMethodID(env, exception_class, "<init>", "(ILjava/lang/String;)V");
  if (exception_constructor == NULL) return false;
  string_class = find_class(env, "java/lang/String");
  if (string_class == NULL) return false;
  string_constructor = (*env)->GetMethodID(env, string_class, "<init>", "([BLjava/lang/String;)V");
  if (string_constructor == NULL) return false;
  jstring name = (*env)->NewStringUTF(env, "UTF-8");
  if (name == NULL) return false;
  utf8 = (*env)->NewGlobalRef(env, name);
  return utf8 != NULL;
}

JNIEXPORT jint JNI_OnLoad(JavaVM *vm, void *reserved) {
  (void)reserved;
  JNIEnv *env;
  if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
  if (!find_java(env)) return JNI_ERR;
  ort = OrtGetApiBase()->GetApi(API_VERSION);
  /* The system's loader reports JNI_ERR as an UnsatisfiedLinkError, which the app takes for a missing runtime. */
  if (ort == NULL) return JNI_ERR;
  OrtEnv *created;
  if (!ort_succeeded(env, ort->CreateEnv(ORT_LOGGING_LEVEL_ERROR, "lite-nlp", &created))) return JNI_ERR;
  ort_env = created;
  if (!ort_succeeded(env, ort->GetAllocatorWithDefaultOptions(&ort_allocator))) return JNI_ERR;
  return JNI_VERSION_1_6;
}

JNIEXPORT jstring JNICALL Java_dev_litenlp_app_engine_OrtNative_version(JNIEnv *env, jclass class) {
  (void)class;
  return new_string(env, OrtGetApiBase()->GetVersionString());
}
