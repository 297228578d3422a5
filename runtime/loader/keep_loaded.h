// SPDX-License-Identifier: Apache-2.0
//
// Code that must not be unloaded.  devrt's threads, the backends' threads and
// the handlers that both register run for the rest of the process.  A program
// may have linked that code into a library of its own and dlclose it.
//
//   KeepLoaded(reinterpret_cast<const void*>(open));

#ifndef DEVRT_RUNTIME_INTERNAL_KEEP_LOADED_H_
#define DEVRT_RUNTIME_INTERNAL_KEEP_LOADED_H_

namespace devrt::internal {

// From now on dlclose leaves the library that contains `code` in the process.
// Nothing for code of the program itself.
void KeepLoaded(const void* code);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_KEEP_LOADED_H_
