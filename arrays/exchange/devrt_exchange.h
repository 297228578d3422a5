/* SPDX-License-Identifier: Apache-2.0
 *
 * DLPack's exchange API over devrt's arrays, for programs in C and in other
 * languages.  The table's "Python objects" are devrt_array handles.
 *
 *   const DLPackExchangeAPI* api = devrt_exchange_api_v0();
 *   void* array;
 *   if (api->managed_tensor_to_py_object_no_sync(tensor, &array) != 0)
 *     puts(devrt_exchange_last_error_v0());
 *   ...
 *   devrt_array_release_v0(array);
 *
 * A handle is one reference to an array, owned by the caller.  C++ makes one
 * with WrapArray (exchange_handle.h) and looks into it with UnwrapArray.
 *
 * Functions of the table return 0, or -1 after an error.  Then
 * devrt_exchange_last_error_v0 returns the text, except for
 * managed_tensor_allocator, which calls SetError once, with "MemoryError",
 * "BufferError" or "ValueError".  "No sync" is a term of the exchange API: work
 * on current_work_stream, or make your own stream wait for it.
 *
 * Threads: any.  The table is valid until the process ends.
 */
#ifndef DEVRT_ARRAYS_EXCHANGE_DEVRT_EXCHANGE_H_
#define DEVRT_ARRAYS_EXCHANGE_DEVRT_EXCHANGE_H_

#include "devrt/arrays/dlpack_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks the functions that libdevrt exports. */
#define DEVRT_EXCHANGE_EXPORT __attribute__((visibility("default")))

/* A reference to an array; see the comment at the top. */
typedef struct devrt_array devrt_array;

/* The table, one for the process. */
DEVRT_EXCHANGE_EXPORT const DLPackExchangeAPI* devrt_exchange_api_v0(void);
/* Ends this reference; other references keep the memory.  NULL is allowed. */
DEVRT_EXCHANGE_EXPORT void devrt_array_release_v0(devrt_array* array);
/* Returns another reference; NULL for NULL. */
DEVRT_EXCHANGE_EXPORT devrt_array* devrt_array_retain_v0(
    const devrt_array* array);
/* The text of the calling thread's last call that failed; "" if none did. */
DEVRT_EXCHANGE_EXPORT const char* devrt_exchange_last_error_v0(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_ARRAYS_EXCHANGE_DEVRT_EXCHANGE_H_ */
