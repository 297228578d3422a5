// SPDX-License-Identifier: Apache-2.0
//
// Keeps code loaded.  Threads of devrt and of backends, and the handlers that
// they register, run until the process ends, but a program may have linked
// their code into a library that it closes with dlclose.
//
//   KeepLoaded(reinterpret_cast<const void*>(open));

#ifndef DEVRT_RUNTIME_LOADER_KEEP_LOADED_H_
#define DEVRT_RUNTIME_LOADER_KEEP_LOADED_H_

namespace devrt::internal {

// Makes dlclose leave the library that contains `code` loaded.  Does nothing
// for code of the program itself.
void KeepLoaded(const void* code);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_KEEP_LOADED_H_
