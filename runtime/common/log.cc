// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/log.h"

#include <stdlib.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "runtime/common/thread_end.h"

namespace devrt {
namespace {

constexpr int kUnset = -1;
std::atomic<int> min_level{kUnset};
std::atomic<LogSink> log_sink{nullptr};

constexpr const char* kLevelNames[] = {"debug", "info", "warning", "error",
                                       "off"};

std::optional<LogLevel> ParseLevel(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(LogLevel::kOff); ++i) {
    if (text == kLevelNames[i]) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

void WriteToStderr(LogLevel level, const char* file, int line,
                   std::string_view text) {
  const char* slash = std::strrchr(file, '/');
  // One call of fprintf, so that lines of several threads do not mix.
  std::fprintf(stderr, "devrt %s: %.*s [%s:%d]\n",
               kLevelNames[static_cast<int>(level)],
               static_cast<int>(text.size()), text.data(),
               slash != nullptr ? slash + 1 : file, line);
}

// Runs the sink; returns how it ended abnormally, or nullptr if it returned.
const char* CallSink(LogSink sink, LogLevel level, const char* file, int line,
                     std::string_view text) {
  try {
    return internal::RunToItsEnd([&] { sink(level, file, line, text); })
               ? nullptr
               : "called pthread_exit";
  } catch (...) {
    return "threw an exception";
  }
}

// Callers are destructors and threads of backends, so no exception, exit or
// cancellation may leave this function.
void Write(LogLevel level, const char* file, int line, std::string_view text) {
  const internal::NoCancel no_cancel;
  const LogSink sink = log_sink.load(std::memory_order_acquire);
  const char* const ended =
      sink == nullptr ? nullptr : CallSink(sink, level, file, line, text);
  if (sink != nullptr && ended == nullptr) return;
  WriteToStderr(level, file, line, text);
  if (ended == nullptr) return;
  WriteToStderr(LogLevel::kError, __FILE__, __LINE__,
                std::string("the log sink of the program ") + ended +
                    " at the message above; a sink must return");
}

LogLevel LevelFromEnvironment() {
  const char* text = secure_getenv("DEVRT_LOG");
  if (text == nullptr || *text == '\0') return LogLevel::kWarning;
  if (std::optional<LogLevel> level = ParseLevel(text)) return *level;
  Write(LogLevel::kWarning, __FILE__, __LINE__,
        std::string("DEVRT_LOG=") + text +
            " is not a level; expected debug, info, warning, error or off");
  return LogLevel::kWarning;
}

}  // namespace

void SetLogSink(LogSink sink) {
  log_sink.store(sink, std::memory_order_release);
}

void SetLogLevel(LogLevel level) {
  min_level.store(static_cast<int>(level), std::memory_order_relaxed);
}

LogLevel GetLogLevel() {
  int level = min_level.load(std::memory_order_relaxed);
  if (level != kUnset) return static_cast<LogLevel>(level);
  const int read = static_cast<int>(LevelFromEnvironment());
  // If another thread called SetLogLevel meanwhile, its level wins.
  if (min_level.compare_exchange_strong(level, read)) level = read;
  return static_cast<LogLevel>(level);
}

void Log(LogLevel level, const char* file, int line, std::string_view text) {
  if (level < GetLogLevel() || level >= LogLevel::kOff) return;
  Write(level, file != nullptr ? file : "?", line, text);
}

}  // namespace devrt
