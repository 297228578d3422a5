// SPDX-License-Identifier: Apache-2.0
//
// Leaks: the program's objects that are alive at its end, by the line that made
// them.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_LEAKS_H_
#define DEVRT_LAYERS_VALIDATE_LEAKS_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "layers/validate/memory_map.h"
#include "layers/validate/notice.h"
#include "layers/validate/report.h"

namespace devrt::race {

class Leaks {
 public:
  // A stream or an event of the program: `noun` says which.
  void Made(const void* object, const char* noun, uint32_t device,
            uint32_t site) {
    objects_[object] = {noun, device, site};
  }
  void Ended(const void* object) { objects_.erase(object); }
  // The simulator forgets the objects of the devices [begin, end).
  void RemoveDevices(uint32_t begin, uint32_t end);

  // One notice for each line and kind of object.  `live` are the blocks that
  // are alive.
  std::vector<Notice> Find(const std::vector<const Block*>& live,
                           const Names& names) const;

 private:
  struct Object {
    const char* noun = "";
    uint32_t device = 0;
    uint32_t site = 0;
  };
  std::unordered_map<const void*, Object> objects_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_LEAKS_H_
