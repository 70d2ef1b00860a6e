/* jni.h includes this and uses nothing of it. */
#ifndef LITENLP_STDIO_H
#define LITENLP_STDIO_H
#endif
