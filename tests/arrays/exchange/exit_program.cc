// SPDX-License-Identifier: Apache-2.0
//
// Holds tensors of devrt's, as a consumer would, until after main; releases
// them there, and leaves with 3.

#include <cstdio>
#include <cstdlib>

#include "devrt/devrt.h"

namespace {

struct Held {
  ~Held() {
    for (DLManagedTensorVersioned* t : {device, host}) {
      if (t != nullptr) t->deleter(t);
    }
    std::printf("released after main\n");
  }
  DLManagedTensorVersioned* device = nullptr;
  DLManagedTensorVersioned* host = nullptr;
};

Held held;

}  // namespace

int main() {
  const auto gpu = devrt::GetDevice("mtia:0");
  if (!gpu.ok()) return 1;
  const auto x = devrt::Array::Empty({4}, devrt::kInt32, devrt::Place(*gpu));
  const auto y = devrt::Array::Empty({4}, devrt::kInt32, devrt::Place::Host());
  if (!x.ok() || !y.ok()) return 1;
  const auto a = devrt::ToDLPack(*x);
  const auto b = devrt::ToDLPack(*y);
  if (!a.ok() || !b.ok()) return 1;
  held.device = *a;
  held.host = *b;
  std::exit(3);
}
