/* SPDX-License-Identifier: Apache-2.0
 *
 * The structs of dlpack_abi.h for a C compiler, and a program in C that uses
 * the exchange API.  What is not right does not compile.
 */
#include <stddef.h>
#include <stdio.h>

#include "devrt/arrays/devrt_exchange.h"

#define CHECK(condition) _Static_assert(condition, #condition)
#define STRUCT(type, size) CHECK(sizeof(type) == (size));
#define FIELD(type, field, offset) CHECK(offsetof(type, field) == (offset));
#define NUMBER(name, value) CHECK((name) == (value));
#include "dlpack_layout.inc"

static int64_t shape[2] = {2, 3};
static float values[6] = {0, 1, 2, 3, 4, 5};
static int deleted = 0;
static int errors = 0;

static void Delete(DLManagedTensorVersioned* tensor) {
  (void)tensor;
  ++deleted;
}

static void SetError(void* context, const char* kind, const char* message) {
  (void)kind;
  (void)message;
  ++*(int*)context;
}

#define EXPECT(condition)                                \
  do {                                                   \
    if (!(condition)) {                                  \
      printf("line %d: %s (%s)\n", __LINE__, #condition, \
             devrt_exchange_last_error_v0());            \
      return 1;                                          \
    }                                                    \
  } while (0)

int main(void) {
  const DLPackExchangeAPI* api = devrt_exchange_api_v0();
  EXPECT(api->header.version.major == 1 && api->header.version.minor == 3);
  EXPECT(api->header.prev_api == NULL);

  DLManagedTensorVersioned mine = {{1, 0}, NULL, &Delete, 0, {0}};
  mine.dl_tensor.data = values;
  mine.dl_tensor.device.device_type = kDLCPU;
  mine.dl_tensor.ndim = 2;
  mine.dl_tensor.dtype.code = kDLFloat;
  mine.dl_tensor.dtype.bits = 32;
  mine.dl_tensor.dtype.lanes = 1;
  mine.dl_tensor.shape = shape;
  void* array = NULL;
  EXPECT(api->managed_tensor_to_py_object_no_sync(&mine, &array) == 0);
  EXPECT(array != NULL && deleted == 0);

  DLTensor borrowed;
  EXPECT(api->dltensor_from_py_object_no_sync(array, &borrowed) == 0);
  EXPECT(borrowed.data == values && borrowed.ndim == 2);
  EXPECT(borrowed.shape[1] == 3 && borrowed.strides[0] == 3);

  DLManagedTensorVersioned* owned = NULL;
  EXPECT(api->managed_tensor_from_py_object_no_sync(array, &owned) == 0);
  devrt_array* again = devrt_array_retain_v0((devrt_array*)array);
  devrt_array_release_v0((devrt_array*)array);
  devrt_array_release_v0(again);
  EXPECT(owned->dl_tensor.data == values && deleted == 0);
  owned->deleter(owned);

  /* The next call frees the returned tensor. */
  DLManagedTensorVersioned* fresh = NULL;
  EXPECT(api->managed_tensor_allocator(&mine.dl_tensor, &fresh, &errors,
                                       &SetError) == 0);
  EXPECT(deleted == 1 && errors == 0);
  EXPECT(fresh->dl_tensor.data != values && fresh->dl_tensor.ndim == 2);
  fresh->deleter(fresh);

  void* stream = &stream;
  EXPECT(api->current_work_stream(kDLCPU, 0, &stream) == 0 && stream == NULL);

  /* Each failure says something, once. */
  mine.dl_tensor.dtype.lanes = 2;
  EXPECT(api->managed_tensor_allocator(&mine.dl_tensor, &fresh, &errors,
                                       &SetError) == -1);
  EXPECT(errors == 1);
  EXPECT(api->managed_tensor_to_py_object_no_sync(&mine, &array) == -1);
  EXPECT(devrt_exchange_last_error_v0()[0] != '\0' && deleted == 1);
  EXPECT(api->managed_tensor_from_py_object_no_sync(NULL, &owned) == -1);
  EXPECT(api->dltensor_from_py_object_no_sync(NULL, &borrowed) == -1);
  EXPECT(api->current_work_stream(kDLMetal, 0, &stream) == -1);
  return 0;
}
