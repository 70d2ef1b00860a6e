/*
 * Opens Android's libraries on a Linux machine before the Java virtual machine does. Each brings a C++ runtime of its own, whose
 * symbols must not be taken from the virtual machine's: RTLD_DEEPBIND, which System.load does not pass. Never part of the app.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <jni.h>

JNIEXPORT jstring JNICALL Java_dev_litenlp_nativetests_HostLoader_open(JNIEnv *env, jclass class, jstring path) {
  (void)class;
  const char *file = (*env)->GetStringUTFChars(env, path, NULL);
  if (file == NULL) return NULL;
  void *library = dlopen(file, RTLD_NOW | RTLD_DEEPBIND);
  (*env)->ReleaseStringUTFChars(env, path, file);
  return library == NULL ? (*env)->NewStringUTF(env, dlerror()) : NULL;
}
