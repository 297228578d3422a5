// SPDX-License-Identifier: Apache-2.0
//
// devrt's log: lines go to stderr, or to a sink of the program.
//
// Destructors cannot return errors, so they write them here.  The lowest level
// that is written is kWarning, unless DEVRT_LOG=debug|info|warning|error|off or
// SetLogLevel sets another level.

#ifndef DEVRT_RUNTIME_COMMON_LOG_H_
#define DEVRT_RUNTIME_COMMON_LOG_H_

#include <string_view>

#include "devrt/runtime/export.h"

namespace devrt {

// How much a line matters, in ascending order; kOff writes no line.
enum class LogLevel { kDebug = 0, kInfo, kWarning, kError, kOff };

// Receives one line, without a newline.  devrt calls the sink from any thread,
// also from several at once.  The sink must not call devrt, and must return: if
// it throws or calls pthread_exit, devrt writes the line to stderr.
using LogSink = void (*)(LogLevel level, const char* file, int line,
                         std::string_view text);

// Sends later lines to `sink`; nullptr restores stderr.  Threads: any.
DEVRT_EXPORT void SetLogSink(LogSink sink);
// The lowest level that is written, for all threads:
DEVRT_EXPORT void SetLogLevel(LogLevel level);
DEVRT_EXPORT LogLevel GetLogLevel();

// Writes the line if `level` is at least GetLogLevel().
DEVRT_EXPORT void Log(LogLevel level, const char* file, int line,
                      std::string_view text);

}  // namespace devrt

// Log with the file and the line of the macro: DEVRT_LOG(kInfo, "ready").
#define DEVRT_LOG(level, text) \
  ::devrt::Log(::devrt::LogLevel::level, __FILE__, __LINE__, (text))

#endif  // DEVRT_RUNTIME_COMMON_LOG_H_
