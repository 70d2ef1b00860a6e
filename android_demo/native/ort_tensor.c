/* Tensors: make, read, gather rows, release. Implements the natives of dev.litenlp.app.engine.OrtNative on tensors. */
#include <stdlib.h>
#include <string.h>

#include "ort_session.h"

typedef struct {
  ONNXTensorElementDataType type;
  size_t rank;
  int64_t shape[MAX_RANK];
  size_t count; /* elements */
  void *data;
} View;

/* Bytes of an element; 0 for a type that a bundle's state cannot have. */
static size_t element_size(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
      return 4;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return 8;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL:
      return 1;
    default:
      return 0;
  }
}

static bool read_shape(JNIEnv *env, const OrtTensorTypeAndShapeInfo *info, View *view) {
  if (!ort_succeeded(env, ort->GetTensorElementType(info, &view->type)) ||
      !ort_succeeded(env, ort->GetTensorShapeElementCount(info, &view->count)) ||
      !ort_succeeded(env, ort->GetDimensionsCount(info, &view->rank))) {
    return false;
  }
  if (view->rank > MAX_RANK) {
    throw_invalid(env, "tensor: expected at most 8 dimensions, found more");
    return false;
  }
  return ort_succeeded(env, ort->GetDimensions(info, view->shape, view->rank));
}

static bool view_tensor(JNIEnv *env, OrtValue *tensor, View *view) {
  OrtTensorTypeAndShapeInfo *info;
  if (!ort_succeeded(env, ort->GetTensorTypeAndShape(tensor, &info))) return false;
  bool read = read_shape(env, info, view);
  ort->ReleaseTensorTypeAndShapeInfo(info);
  return read && ort_succeeded(env, ort->GetTensorMutableData(tensor, &view->data));
}

/* A tensor with undefined elements, and the view of it; null with an exception pending. */
static OrtValue *create_tensor(JNIEnv *env, ONNXTensorElementDataType type, const int64_t *shape, size_t rank,
                               View *view) {
  OrtValue *tensor = NULL;
  if (!ort_succeeded(env, ort->CreateTensorAsOrtValue(ort_allocator, shape, rank, type, &tensor))) return NULL;
  if (view_tensor(env, tensor, view)) return tensor;
  ort->ReleaseValue(tensor);
  return NULL;
}

/* The same from a Java shape; `length` is what the elements to be copied in number, -1 for none. */
static OrtValue *create_from_java(JNIEnv *env, ONNXTensorElementDataType type, jlongArray shape, jsize length,
                                  View *view) {
  jsize rank = (*env)->GetArrayLength(env, shape);
  int64_t sizes[MAX_RANK];
  if (rank > MAX_RANK) {
    throw_invalid(env, "tensor: expected at most 8 dimensions, found more");
    return NULL;
  }
  (*env)->GetLongArrayRegion(env, shape, 0, rank, (jlong *)sizes);
  OrtValue *tensor = create_tensor(env, type, sizes, (size_t)rank, view);
  if (tensor != NULL && length >= 0 && (size_t)length != view->count) {
    throw_invalid(env, "tensor: expected as many elements as the shape has, found another number");
    ort->ReleaseValue(tensor);
    return NULL;
  }
  return tensor;
}

JNIEXPORT jlong JNICALL Java_dev_litenlp_app_engine_OrtNative_newLongs(JNIEnv *env, jclass class, jlongArray values,
                                                                       jlongArray shape) {
  (void)class;
  View view;
  jsize length = (*env)->GetArrayLength(env, values);
  OrtValue *tensor = create_from_java(env, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, shape, length, &view);
  if (tensor != NULL) (*env)->GetLongArrayRegion(env, values, 0, length, view.data);
  return (jlong)tensor;
}

JNIEXPORT jlong JNICALL Java_dev_litenlp_app_engine_OrtNative_newDoubles(JNIEnv *env, jclass class,
                                                                         jdoubleArray values, jlongArray shape) {
  (void)class;
  View view;
  jsize length = (*env)->GetArrayLength(env, values);
  OrtValue *tensor = create_from_java(env, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, shape, length, &view);
  if (tensor != NULL) (*env)->GetDoubleArrayRegion(env, values, 0, length, view.data);
  return (jlong)tensor;
}

JNIEXPORT jlong JNICALL Java_dev_litenlp_app_engine_OrtNative_newBooleans(JNIEnv *env, jclass class,
                                                                          jbooleanArray values, jlongArray shape) {
  (void)class;
  View view;
  jsize length = (*env)->GetArrayLength(env, values);
  OrtValue *tensor = create_from_java(env, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, shape, length, &view);
  if (tensor != NULL) (*env)->GetBooleanArrayRegion(env, values, 0, length, view.data);
  return (jlong)tensor;
}

JNIEXPORT jlong JNICALL Java_dev_litenlp_app_engine_OrtNative_newZeros(JNIEnv *env, jclass class, jint type,
                                                                       jlongArray shape) {
  (void)class;
  View view;
  size_t size = element_size((ONNXTensorElementDataType)type);
  if (size == 0) {
    throw_invalid(env, "tensor: expected float32, int64 or bool elements, found another type");
    return 0;
  }
  OrtValue *tensor = create_from_java(env, (ONNXTensorElementDataType)type, shape, -1, &view);
  if (tensor != NULL) memset(view.data, 0, view.count * size);
  return (jlong)tensor;
}

/* The view of a tensor with `length` elements of this type; false with an exception pending if it is another. */
static bool view_elements(JNIEnv *env, jlong handle, ONNXTensorElementDataType type, jsize length, View *view) {
  if (!view_tensor(env, (OrtValue *)handle, view)) return false;
  if (view->type == type && view->count == (size_t)length) return true;
  throw_invalid(env, "tensor: expected elements of the array's type, as many as it has, found otherwise");
  return false;
}

JNIEXPORT void JNICALL Java_dev_litenlp_app_engine_OrtNative_readFloats(JNIEnv *env, jclass class, jlong handle,
                                                                        jfloatArray target) {
  (void)class;
  View view;
  jsize length = (*env)->GetArrayLength(env, target);
  if (!view_elements(env, handle, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, length, &view)) return;
  (*env)->SetFloatArrayRegion(env, target, 0, length, view.data);
}

JNIEXPORT void JNICALL Java_dev_litenlp_app_engine_OrtNative_readDoubles(JNIEnv *env, jclass class, jlong handle,
                                                                         jdoubleArray target) {
  (void)class;
  View view;
  jsize length = (*env)->GetArrayLength(env, target);
  if (!view_elements(env, handle, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, length, &view)) return;
  (*env)->SetDoubleArrayRegion(env, target, 0, length, view.data);
}

JNIEXPORT void JNICALL Java_dev_litenlp_app_engine_OrtNative_readLongs(JNIEnv *env, jclass class, jlong handle,
                                                                       jlongArray target) {
  (void)class;
  View view;
  jsize length = (*env)->GetArrayLength(env, target);
  if (!view_elements(env, handle, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, length, &view)) return;
  (*env)->SetLongArrayRegion(env, target, 0, length, view.data);
}

JNIEXPORT void JNICALL Java_dev_litenlp_app_engine_OrtNative_readBooleans(JNIEnv *env, jclass class, jlong handle,
                                                                          jbooleanArray target) {
  (void)class;
  View view;
  jsize length = (*env)->GetArrayLength(env, target);
  if (!view_elements(env, handle, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, length, &view)) return;
  (*env)->SetBooleanArrayRegion(env, target, 0, length, view.data);
}

JNIEXPORT jlongArray JNICALL Java_dev_litenlp_app_engine_OrtNative_shape(JNIEnv *env, jclass class, jlong handle) {
  (void)class;
  View view;
  if (!view_tensor(env, (OrtValue *)handle, &view)) return NULL;
  jlongArray shape = (*env)->NewLongArray(env, (jsize)view.rank);
  if (shape != NULL) (*env)->SetLongArrayRegion(env, shape, 0, (jsize)view.rank, (const jlong *)view.shape);
  return shape;
}

static bool copy_rows(JNIEnv *env, const View *from, const View *to, const jint *rows) {
  size_t row_bytes = (size_t)to->shape[0] == 0 ? 0 : to->count / (size_t)to->shape[0] * element_size(to->type);
  for (int64_t i = 0; i < to->shape[0]; i++) {
    if (rows[i] < 0 || rows[i] >= from->shape[0]) {
      throw_invalid(env, "gatherRows: expected rows of the tensor, found a number beyond them");
      return false;
    }
    memcpy((char *)to->data + (size_t)i * row_bytes, (const char *)from->data + (size_t)rows[i] * row_bytes,
           row_bytes);
  }
  return true;
}

JNIEXPORT jlong JNICALL Java_dev_litenlp_app_engine_OrtNative_gatherRows(JNIEnv *env, jclass class, jlong handle,
                                                                         jintArray rows) {
  (void)class;
  View from, to;
  if (!view_tensor(env, (OrtValue *)handle, &from)) return 0;
  if (from.rank == 0 || element_size(from.type) == 0) {
    throw_invalid(env, "gatherRows: expected rows of float32, int64 or bool elements, found another tensor");
    return 0;
  }
  int64_t shape[MAX_RANK];
  memcpy(shape, from.shape, from.rank * sizeof(int64_t));
  shape[0] = (*env)->GetArrayLength(env, rows);
  jint *numbers = malloc((size_t)shape[0] * sizeof(jint) + 1);
  if (numbers == NULL) {
    throw_out_of_memory(env, "gatherRows");
    return 0;
  }
  (*env)->GetIntArrayRegion(env, rows, 0, (jsize)shape[0], numbers);
  OrtValue *tensor = create_tensor(env, from.type, shape, from.rank, &to);
  if (tensor != NULL && !copy_rows(env, &from, &to, numbers)) {
    ort->ReleaseValue(tensor);
    tensor = NULL;
  }
  free(numbers);
  return (jlong)tensor;
}

JNIEXPORT void JNICALL Java_dev_litenlp_app_engine_OrtNative_release(JNIEnv *env, jclass class, jlong handle) {
  (void)env, (void)class;
  ort->ReleaseValue((OrtValue *)handle);
}
