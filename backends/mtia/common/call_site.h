// SPDX-License-Identifier: Apache-2.0
//
// A copy of a devrt_call_site_v0, for messages after the call.

#ifndef DEVRT_BACKENDS_MTIA_COMMON_CALL_SITE_H_
#define DEVRT_BACKENDS_MTIA_COMMON_CALL_SITE_H_

#include <cstdint>
#include <string>

#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

struct CallSite {
  const char* file = nullptr;  // static storage, by the ABI
  int32_t line = 0;
  std::string label;

  CallSite() = default;
  explicit CallSite(const devrt_call_site_v0& site)
      : file(site.file),
        line(site.line),
        label(site.label != nullptr ? site.label : "") {}

  // "train.cc:40 (weights)"
  std::string Text() const {
    std::string text = file == nullptr
                           ? "an unknown place"
                           : std::string(file) + ":" + std::to_string(line);
    return label.empty() ? text : text + " (" + label + ")";
  }
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_COMMON_CALL_SITE_H_
