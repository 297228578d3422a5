// SPDX-License-Identifier: Apache-2.0
//
// Consumers on streams that devrt adopted, whose Stream ends before they are
// through: what they do natively goes on.

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "devrt/arrays/cuda_array_interface.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/dlpack_exchange.h"
#include "tests/arrays/order/litmus.h"
#include "tests/arrays/order/others.h"

namespace devrt::testing {
namespace {

class Adopted : public OthersPrograms {
 public:
  // kSome: devrt has an owner object that keeps the native stream alive.
  enum class Owner { kNone, kSome };
  // Takes the memory for use on `stream`. The result ends the use.
  using Taken = std::function<void()>;
  using Take = Taken (*)(const Array& x, StreamRef stream);

  static Stream Adopt(StreamRef theirs, Owner owner) {
    return Must(Stream::FromNative(
        dev(), Must(theirs.Native()),
        owner == Owner::kSome ? std::make_shared<int>(1) : nullptr));
  }

  // ---- Ways to take it ----

  static Taken AsTensor(const Array& x, StreamRef stream) {
    DLPackExport how;
    how.stream = Others::Handle(stream);
    DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
    return [t] {
      t->deleter(t);
      internal::RunPendingReleases();  // as any call of devrt's
    };
  }
  static Taken AsBorrowed(const Array& x, StreamRef stream) {
    const StreamGuard on(stream);
    int64_t strides[1];
    DLTensor t;
    Must(BorrowNoSync(x, strides, &t));
    return [] {};
  }
  static Taken AsCai(const Array& x, StreamRef stream) {
    const AsHip hip;
    const StreamGuard on(stream);
    Must(ToCudaArrayInterface(x));
    return [] {};
  }

  // ---- Programs ----

  static bool WriteIsJoined() {
    Stream a = NewStream();
    Stream theirs = NewStream();
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    std::optional<Stream> adopted = Adopt(theirs, Owner::kSome);
    const Taken end = AsTensor(x, *adopted);
    Must(x.OrderBefore(a));
    adopted.reset();
    WriteAsConsumer(theirs, x);
    end();
    On(a, [&] { return y.CopyFrom(x); });
    Done();
    return IsAll(y, 0);
  }
  // Without an owner its stream is one that devrt does not know any more, and
  // a blocking one.  What it was given before is known to be over.
  // `home`: the array is that stream's.
  static bool MemoryOutlives(Take take, Owner owner, bool home = false) {
    Stream a = NewStream();
    StreamOptions options;
    options.blocking = owner == Owner::kNone;
    Stream theirs = Must(Stream::Create(dev(), options));
    const Array y = Filled(dev(), 2);
    std::optional<Stream> adopted = Adopt(theirs, owner);
    std::optional<Array> x;
    On(home ? adopted->ref() : a.ref(), [&] {
      x = Filled(dev(), 1);
      return absl::OkStatus();
    });
    const Taken end = take(*x, *adopted);
    const void* const data = x->data();
    adopted.reset();
    Must(dev().Synchronize());
    ReadAsConsumer(theirs, y, data);
    x.reset();
    end();
    // An event there stands for no stream that does not block.
    if (owner == Owner::kSome) Must(DefaultStream(dev()).Synchronize());
    UseAgain(a);
    Done();
    return IsAll(y, 1);
  }
  static bool MemoryOutlivesTensors() {
    return MemoryOutlives(&AsTensor, Owner::kSome);
  }
  static bool MemoryOutlivesBorrowers() {
    return MemoryOutlives(&AsBorrowed, Owner::kSome);
  }
  static bool MemoryOutlivesCai() {
    return MemoryOutlives(&AsCai, Owner::kSome);
  }
  static bool HomeMemoryOutlivesTensors() {
    return MemoryOutlives(&AsTensor, Owner::kSome, true);
  }
  static bool HomeMemoryOutlivesBorrowers() {
    return MemoryOutlives(&AsBorrowed, Owner::kSome, true);
  }
  static bool MemoryOutlivesUnownedTensors() {
    return MemoryOutlives(&AsTensor, Owner::kNone);
  }
  static bool MemoryOutlivesUnownedBorrowers() {
    return MemoryOutlives(&AsBorrowed, Owner::kNone);
  }
};

}  // namespace

const std::vector<Litmus>& AdoptedLitmus() {
  static const std::vector<Litmus> all = {
      {"EndedAdoptedConsumersWriteIsJoined", &Adopted::WriteIsJoined},
      {"MemoryOutlivesEndedAdoptedConsumers", &Adopted::MemoryOutlivesTensors},
      {"MemoryOutlivesEndedAdoptedBorrowers",
       &Adopted::MemoryOutlivesBorrowers},
      {"MemoryOutlivesEndedAdoptedCaiConsumers", &Adopted::MemoryOutlivesCai},
      {"HomeMemoryOutlivesEndedAdoptedConsumers",
       &Adopted::HomeMemoryOutlivesTensors},
      {"HomeMemoryOutlivesEndedAdoptedBorrowers",
       &Adopted::HomeMemoryOutlivesBorrowers},
      {"MemoryOutlivesEndedUnownedConsumers",
       &Adopted::MemoryOutlivesUnownedTensors},
      {"MemoryOutlivesEndedUnownedBorrowers",
       &Adopted::MemoryOutlivesUnownedBorrowers},
  };
  return all;
}

}  // namespace devrt::testing
