// SPDX-License-Identifier: Apache-2.0
//
// write_pickle SEED: that made-up snapshot as JSON and as a pickle, each with
// its size in a line before it, for torch_pickle_test.py.

#include <cstdio>
#include <cstdlib>
#include <string>

#include "devrt/memory/history.h"
#include "tests/tools/made_up_snapshot.h"
#include "tools/memory/torch_pickle.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const devrt::MemorySnapshot snapshot =
      devrt::testing::MakeUpSnapshot(std::strtoull(argv[1], nullptr, 10));
  for (const std::string& text :
       {devrt::ToJson(snapshot), devrt::tools::ToTorchPickle(snapshot)}) {
    std::printf("%zu\n", text.size());
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  return 0;
}
