// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/common/options.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "tests/fakes/common/vendor.h"

namespace devrt::fake {
namespace {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find(separator, at);
    if (end == std::string::npos) end = text.size();
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

unsigned long Number(const std::string& text, const std::string& part) {
  char* end = nullptr;
  const unsigned long number = std::strtoul(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') {
    Die("%s: \"%s\": expected a number, not \"%s\"", kVendor.variable,
        part.c_str(), text.c_str());
  }
  return number;
}

Failure FailureOf(const std::string& value, const std::string& part) {
  const size_t at = value.find('@');
  const size_t colon = value.find(':');
  if (at == std::string::npos || colon == std::string::npos || colon < at) {
    Die("%s: \"%s\": expected NAME@N:CODE", kVendor.variable, part.c_str());
  }
  Failure failure;
  failure.name = value.substr(0, at);
  failure.nth = Number(value.substr(at + 1, colon - at - 1), part);
  failure.code = static_cast<int>(Number(value.substr(colon + 1), part));
  return failure;
}

// Its bit.
uint32_t QuirkOf(const std::string& part) {
  std::string known;
  for (unsigned i = 0; kVendor.quirks[i] != nullptr; ++i) {
    if (part == kVendor.quirks[i]) return 1u << i;
    known += std::string(", ") + kVendor.quirks[i];
  }
  Die("%s: \"%s\": expected one of devices=, version=, missing=, no_device, "
      "init=, fail=, lost=, quirks%s",
      kVendor.variable, part.c_str(), known.c_str());
}

Options Read() {
  Options options;
  const char* const variable = std::getenv(kVendor.variable);
  for (const std::string& part : Split(variable ? variable : "", ',')) {
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, equals);
    const std::string value =
        equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "devices") {
      options.devices = Number(value, part);
    } else if (key == "version") {
      options.version = static_cast<int>(Number(value, part));
    } else if (key == "missing") {
      options.missing = Split(value, '+');
    } else if (part == "no_device") {
      options.init = kVendor.no_device;
    } else if (part == "init=hang") {
      options.start = Options::Start::kHangs;
    } else if (part == "init=crash") {
      options.start = Options::Start::kCrashes;
    } else if (key == "init") {
      options.init = static_cast<int>(Number(value, part));
    } else if (key == "fail") {
      options.fail = FailureOf(value, part);
    } else if (key == "lost") {
      options.lost = FailureOf(value, part);
    } else if (part == "quirks") {
      options.quirks = ~0u;
    } else {
      options.quirks |= QuirkOf(part);
    }
  }
  return options;
}

}  // namespace

bool Options::IsMissing(const std::string& name) const {
  return std::find(missing.begin(), missing.end(), name) != missing.end();
}

const Options& TheOptions() {
  static const auto* const options = new Options(Read());
  return *options;
}

void Die(const char* format, ...) {
  std::fprintf(stderr, "%s: ", kVendor.name);
  va_list args;
  va_start(args, format);
  std::vfprintf(stderr, format, args);
  va_end(args);
  std::fputc('\n', stderr);
  std::abort();
}

}  // namespace devrt::fake
