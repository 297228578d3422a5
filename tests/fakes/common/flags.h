// SPDX-License-Identifier: Apache-2.0
//
// Kernels that wait for a word of pinned memory.  The host sets such a word
// without a call, so every call of the fake driver reads the words, and so does
// a thread of the fake driver while a kernel waits.  A waiting kernel is a flag
// of the simulator.  The timeout of the kernel is real time, as the device's
// clock is.

#ifndef DEVRT_TESTS_FAKES_COMMON_FLAGS_H_
#define DEVRT_TESTS_FAKES_COMMON_FLAGS_H_

#include <cstdint>

#include "tests/fakes/common/work.h"

namespace devrt::fake {

// Submits a kernel that ends when the word at `word` is not 0, or after
// `timeout` nanoseconds; 0 waits for ever.
int WaitForWord(const Work& work, const uint32_t* word, uint64_t timeout);
// Submits a kernel that stores a word.
int SetWord(const Work& work, uint32_t* word, uint32_t value);

// Lets the kernels go on whose words are set.
void OpenFlags();
// Called before the memory is freed.  Ends the kernels of other devices that
// still wait for words in it.
void ForgetWords(const void* begin, size_t size);

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_COMMON_FLAGS_H_
