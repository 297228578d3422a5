// SPDX-License-Identifier: Apache-2.0
//
// Threads of the program that wait in a lock outside of devrt: a mutex, a
// condition variable, a join.  All of these wait in a futex: while a word of
// memory has a value.
//
// Another thread that unlocks would wake such a thread, and the two would run
// at once, in an order that the system chooses.  So a signal makes the thread
// leave the futex and sleep in a handler, where only the baton wakes it.  When
// the handler returns, the system begins the wait in the futex anew, which ends
// at once if the word has changed.  The program notices nothing.

#ifndef DEVRT_BACKENDS_MTIA_THREADS_CATCHING_H_
#define DEVRT_BACKENDS_MTIA_THREADS_CATCHING_H_

#include <cstdint>

namespace devrt::mtia {

// Makes the thread, which waits in a futex without a timeout, call
// Baton::SleepCaught in a handler.  Returns false if that cannot be done: on a
// processor whose registers are not known here, with ThreadSanitizer, which
// delays signals, if the program uses all real-time signals, or if it has taken
// the one that was free.
bool CallIntoHandler(int32_t tid);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_CATCHING_H_
