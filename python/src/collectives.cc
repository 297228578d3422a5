// SPDX-License-Identifier: Apache-2.0
//
// Communicators, for devrt.collectives, which has the public classes.

#include <nanobind/stl/pair.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/collectives/operation.h"
#include "devrt/guards/multi_stream_guard.h"
#include "devrt/runtime/status.h"
#include "python/src/arguments.h"
#include "python/src/bindings.h"
#include "python/src/call_site.h"
#include "python/src/collective_arguments.h"
#include "python/src/collective_exchange.h"
#include "python/src/collective_registration.h"
#include "python/src/device.h"
#include "python/src/dtype.h"
#include "python/src/stream.h"
#include "python/src/wait.h"

namespace devrt::python {
namespace {

using collectives::Bootstrap;
using collectives::Communicator;
using collectives::Group;
using collectives::OpKind;

// What a call of Create uses, which may go on in the background.
struct Creation {
  std::shared_ptr<Exchange> exchange;  // null: another bootstrap
  std::unique_ptr<Bootstrap> bootstrap;
  std::optional<Communicator> made;
  // Of Create.  A thread that was interrupted reads it while Create runs.
  std::atomic<absl::StatusCode> result{absl::StatusCode::kOk};
};

// An object that has the communicator, and ends it.
nb::object ToRank(Communicator communicator);

// The place of one rank.  The last user of the communicator ends it, which may
// wait: without the GIL.
class Rank {
 public:
  // `bootstrap` outlives the communicator, which may ask it; null: it was for
  // the creation only.
  explicit Rank(Communicator communicator,
                std::shared_ptr<Creation> bootstrap = nullptr)
      : device_(WrapDevice(communicator.device())),
        exchange_(bootstrap != nullptr ? bootstrap->exchange : nullptr),
        communicator_(new Communicator(std::move(communicator)),
                      [bootstrap = std::move(bootstrap)](Communicator* ended) {
                        delete ended;
                      }) {
    if (device_ == nullptr) ThrowPythonError();
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    const Unlocked unlocked;
    communicator_.reset();
  }

  Communicator& get() const { return *communicator_; }
  const BackendEntry& backend() const { return *device_->backend; }
  // The calling thread's current stream of the device.
  StreamRef CurrentStreamHere() const {
    const Ref stream(CurrentStreamObject(device_));
    if (!stream) ThrowPythonError();
    return AsStream(stream.get())->ref;
  }
  const std::shared_ptr<Communicator>& shared() const { return communicator_; }
  // Returns the exchange of a communicator that this object alone keeps.
  std::shared_ptr<Exchange> OwnExchange() const {
    return communicator_.use_count() == 1 ? exchange_.lock() : nullptr;
  }
  // After an error of a submission, for which the ranks compare their calls.
  void RethrowSignal() const {
    if (const auto exchange = exchange_.lock()) exchange->RethrowSignal();
  }

  // These waits go on in the background after a handler's exception.
  void Wait(nb::object stream, nb::object seconds) {
    const StreamRef on =
        stream.is_none() ? CurrentStreamHere() : StreamOf(stream.ptr());
    const SiteHere site;
    RunOrThrow(backend(),
               [communicator = communicator_, on,
                deadline = DeadlineOf(seconds), here = CallSite(site)] {
                 return communicator->Wait(on, deadline, here);
               });
  }
  void Finish(nb::object seconds) {
    const SiteHere site;
    RunOrThrow(backend(),
               [communicator = communicator_, deadline = DeadlineOf(seconds),
                here = CallSite(site)] {
                 return communicator->Finish(deadline, here);
               });
  }
  void Barrier(nb::object seconds) {
    const SiteHere site;
    RunOnStream([communicator = communicator_, deadline = DeadlineOf(seconds),
                 here = CallSite(site)] {
      return communicator->Barrier(deadline, here);
    });
  }
  void Abort(nb::handle of_why) {
    const SiteHere site;
    const std::string why(TextOf(of_why, "why"));
    Check(WithoutLock([&] { return get().Abort(why, site); }));
  }
  // (code, text), or None.
  nb::object Failure() const {
    const absl::Status status = WithoutLock([&] { return get().failure(); });
    if (status.ok()) return nb::none();
    return nb::make_tuple(absl::StatusCodeToString(status.code()),
                          ToText(std::string(status.message())));
  }
  nb::object Split(nb::handle of_color, nb::handle of_key) {
    const SiteHere site;
    const int color = Int32Of(of_color, "color");
    const int key = Int32Of(of_key, "key");
    const auto child = std::make_shared<std::optional<Communicator>>();
    RunOnStream([communicator = communicator_, child, color, key,
                 here = CallSite(site)]() -> absl::Status {
      DEVRT_ASSIGN_OR_RETURN(*child, communicator->Split(color, key, here));
      return absl::OkStatus();
    });
    if (!child->has_value()) return nb::none();
    return ToRank(*std::move(*child));
  }
  Rank* Shrink(nb::handle gone) {
    const SiteHere site;
    const auto child = std::make_shared<std::optional<Communicator>>();
    RunOrThrow(
        backend(),
        [communicator = communicator_, child, gone = Int32sOf(gone, "gone"),
         here = CallSite(site)]() -> absl::Status {
          DEVRT_ASSIGN_OR_RETURN(*child, communicator->Shrink(gone, here));
          return absl::OkStatus();
        });
    return new Rank(*std::move(*child));
  }
  bool Supports(const std::string& kind, nb::object dtype,
                nb::handle op) const {
    DType type = kFloat32;
    if (!ParseDType(dtype.ptr(), &type)) ThrowPythonError();
    return Check(get().Supports(KindOf(kind), type, ReductionOf(op)));
  }
  RegisteredMemory* Register(nb::handle object) {
    // A copy: the object may end while the GIL is free.
    const Array array = ArrayArgument(object);
    return new RegisteredMemory(
        backend(), communicator_,
        Check(WithoutLock([&] { return get().Register(array); })));
  }
  nb::list Records() const {
    nb::list list;
    const std::vector<collectives::RecordedCall> calls =
        WithoutLock([&] { return get().Records(); });
    for (const collectives::RecordedCall& call : calls) {
      nb::dict entry;
      entry["number"] = call.number;
      entry["sequence"] = call.sequence;
      entry["text"] = ToText(call.text);
      entry["stream"] = call.stream;
      entry["submit_ns"] = call.submit_ns;
      entry["end_ns"] = call.end_ns;
      entry["file"] = ToText(call.file);
      entry["line"] = call.line;
      list.append(entry);
    }
    return list;
  }

 private:
  // Makes a call that waits and takes the current stream.  It may run on
  // another thread, where another stream would be current.
  void RunOnStream(WaitCall call) const {
    try {
      RunOrThrow(backend(),
                 [stream = CurrentStreamHere(),
                  call = std::move(call)]() -> absl::Status {
                   const MultiStreamGuard guard({stream});
                   DEVRT_RETURN_IF_ERROR(guard.status());
                   return call();
                 });
    } catch (...) {
      RethrowSignal();
      throw;
    }
  }

  DeviceObject* device_;
  std::weak_ptr<Exchange> exchange_;
  std::shared_ptr<Communicator> communicator_;
};

// nb::cast of a pointer alone makes an object that never deletes it.
nb::object ToRank(Communicator communicator) {
  return nb::cast(new Rank(std::move(communicator)),
                  nb::rv_policy::take_ownership);
}

// TypeError for what is no rank, None too.
const Rank& RankOf(nb::handle item) {
  const Rank* rank = nullptr;
  if (!nb::try_cast(item, rank) || rank == nullptr) {
    throw nb::type_error(
        absl::StrCat("ranks has an item that is no rank: expected a "
                     "devrt.collectives.Communicator, not ",
                     TypeName(item.ptr()))
            .c_str());
  }
  return *rank;
}

// Ranks of this process, for a call that waits for all of them, and may go on
// in the background.
class Ranks {
 public:
  explicit Ranks(nb::handle ranks) {
    for (const nb::handle item : ranks) {
      const Rank& rank = RankOf(item);
      ranks_.push_back(&rank);
      owners_.push_back(rank.shared());
      pointers_.push_back(owners_.back().get());
    }
  }
  using Call = std::function<absl::Status(Communicator::RankPointers)>;
  void Run(Call call) const {
    if (owners_.empty()) {
      Check(
          absl::InvalidArgumentError("ranks is empty: give one rank at least"));
    }
    try {
      RunOrThrow(ranks_[0]->backend(), [ranks = *this, call = std::move(call)] {
        return call(ranks.pointers_);
      });
    } catch (...) {
      for (const Rank* const rank : ranks_) rank->RethrowSignal();
      throw;
    }
  }

 private:
  std::vector<const Rank*> ranks_;  // for the thread of the call
  std::vector<std::shared_ptr<Communicator>> owners_;
  std::vector<const Communicator*> pointers_;
};

nb::list SplitAll(nb::list ranks, nb::handle colors, nb::handle keys) {
  using Children = std::vector<std::optional<Communicator>>;
  const SiteHere site;
  const auto made = std::make_shared<Children>();
  // Those of the calling thread: the call may run on another one.
  std::vector<StreamRef> streams;
  for (const nb::handle rank : ranks) {
    streams.push_back(RankOf(rank).CurrentStreamHere());
  }
  Ranks(ranks).Run([made, streams = std::move(streams),
                    colors = Int32sOf(colors, "colors"),
                    keys = Int32sOf(keys, "keys"),
                    here = CallSite(site)](auto all) -> absl::Status {
    const MultiStreamGuard guard(streams);
    DEVRT_RETURN_IF_ERROR(guard.status());
    DEVRT_ASSIGN_OR_RETURN(*made,
                           Communicator::SplitAll(all, colors, keys, here));
    return absl::OkStatus();
  });
  nb::list children;
  for (std::optional<Communicator>& child : *made) {
    children.append(child.has_value() ? ToRank(*std::move(child)) : nb::none());
  }
  return children;
}

nb::list ShrinkAll(nb::list ranks, nb::handle gone) {
  const SiteHere site;
  const auto made = std::make_shared<std::vector<Communicator>>();
  Ranks(ranks).Run([made, gone = Int32sOf(gone, "gone"),
                    here = CallSite(site)](auto all) -> absl::Status {
    DEVRT_ASSIGN_OR_RETURN(*made, Communicator::ShrinkAll(all, gone, here));
    return absl::OkStatus();
  });
  nb::list children;
  for (Communicator& child : *made) {
    children.append(ToRank(std::move(child)));
  }
  return children;
}

void FinishAll(nb::list ranks, nb::object seconds) {
  const SiteHere site;
  Ranks(ranks).Run(
      [deadline = DeadlineOf(seconds), here = CallSite(site)](auto all) {
        return Communicator::FinishAll(all, deadline, here);
      });
}

DeviceObject* DeviceObjectOf(nb::handle device) {
  DeviceObject* const object = ParseDevice(device.ptr());
  if (object == nullptr) ThrowPythonError();
  return object;
}

Rank* CreateRank(nb::handle device, nb::handle options,
                 std::shared_ptr<Creation> creation) {
  const DeviceObject* const object = DeviceObjectOf(device);
  const SiteHere site;
  const collectives::Options wanted = OptionsOf(options);
  try {
    RunOrThrow(*object->backend,
               [creation, on = object->device, wanted, here = CallSite(site)] {
                 auto result = Communicator::Create(on, *creation->bootstrap,
                                                    wanted, here);
                 if (result.ok()) creation->made.emplace(*std::move(result));
                 creation->result = result.status().code();
                 return result.status();
               });
  } catch (...) {
    if (creation->exchange != nullptr) {
      creation->exchange->Rethrow(creation->result);
    }
    throw;
  }
  Communicator made = *std::move(creation->made);
  creation->made.reset();
  if (creation->exchange != nullptr) creation->exchange->EndCreation();
  return new Rank(std::move(made),
                  wanted.check_signatures || wanted.exchange_records
                      ? std::move(creation)
                      : nullptr);
}

Rank* CreateOver(nb::object device, nb::handle of_rank, nb::handle of_size,
                 nb::object all_gather, nb::object options) {
  const int rank = Int32Of(of_rank, "rank");
  const int size = Int32Of(of_size, "size");
  auto creation = std::make_shared<Creation>();
  creation->exchange = Exchange::Make(std::move(all_gather));
  creation->bootstrap = Check(collectives::FromCallbacks(
      Exchange::CallbacksOf(creation->exchange, rank, size)));
  return CreateRank(device, options, std::move(creation));
}

Rank* CreateInFolder(nb::object device, const std::string& folder,
                     nb::handle of_rank, nb::handle of_size,
                     const std::string& job, nb::object options) {
  const int rank = Int32Of(of_rank, "rank");
  const int size = Int32Of(of_size, "size");
  auto creation = std::make_shared<Creation>();
  creation->bootstrap = Check(WithoutLock(
      [&] { return collectives::FromFile(folder, rank, size, job); }));
  return CreateRank(device, options, std::move(creation));
}

Rank* CreateOverPmix(nb::object device, nb::object options) {
  auto creation = std::make_shared<Creation>();
  creation->bootstrap = Check(WithoutLock(&collectives::FromPmix));
  return CreateRank(device, options, std::move(creation));
}

nb::list CreateAll(nb::object devices, nb::object options) {
  std::vector<Device> all;
  for (const nb::handle d : devices) all.push_back(DeviceObjectOf(d)->device);
  const SiteHere site;
  const collectives::Options wanted = OptionsOf(options);
  auto made = Check(
      WithoutLock([&] { return Communicator::CreateAll(all, wanted, site); }));
  nb::list ranks;
  for (Communicator& c : made) ranks.append(ToRank(std::move(c)));
  return ranks;
}

// The program's line, (address of the file's name, line), for SubmitAll.  The
// name lives as long as the process.
nb::tuple LineHere() {
  const SiteHere site{SiteHere::Always()};
  const CallSite here = site;
  return nb::make_tuple(reinterpret_cast<uintptr_t>(here.file), here.line);
}

CallSite SiteOf(nb::handle line) {
  return {reinterpret_cast<const char*>(nb::cast<uintptr_t>(line[0])),
          nb::cast<int>(line[1])};
}

// Each operation is (rank, kind, out, in, op, root or peer, stream, line of
// LineHere); a send has no out, and a receive no in.
void SubmitAll(nb::list operations) {
  Group group;
  const SiteHere site;
  for (const nb::handle entry : operations) {
    const OpKind kind = KindOf(TextOf(entry[1], "operation"));
    const bool is_transfer = kind == OpKind::kSend || kind == OpKind::kRecv;
    const nb::object out = entry[2], in = entry[3];
    group.Add(
        RankOf(entry[0]).get(),
        collectives::Operation(
            kind, kind == OpKind::kSend ? nullptr : &ArrayArgument(out),
            kind == OpKind::kRecv ? nullptr : &ArrayArgument(in),
            ReductionOf(entry[4]),
            Int32Of(entry[5], is_transfer ? "peer" : "root"), SiteOf(entry[7])),
        StreamOf(nb::handle(entry[6]).ptr()));
  }
  const absl::Status submitted =
      WithoutLock([&] { return group.Submit(site); });
  if (!submitted.ok()) {
    for (const nb::handle entry : operations) RankOf(entry[0]).RethrowSignal();
  }
  Check(submitted);
}

}  // namespace

void BindCollectives(nb::module_& module) {
  nb::class_<Rank>(module, "_Rank", nb::type_slots(ExchangeSlots<Rank>::slots))
      .def_prop_ro("rank", [](const Rank& self) { return self.get().rank(); })
      .def_prop_ro("size", [](const Rank& self) { return self.get().size(); })
      .def_prop_ro("id", [](const Rank& self) { return self.get().id(); })
      .def_prop_ro(
          "device",
          [](const Rank& self) { return ToObject(self.get().device()); })
      .def_prop_ro(
          "provider",
          [](const Rank& self) {
            const collectives::ProviderInfo info = self.get().provider();
            return nb::make_tuple(ToText(info.name), ToText(info.version),
                                  ToText(info.path));
          })
      .def_prop_ro(
          "state",
          [](const Rank& self) {
            return ToString(WithoutLock([&] { return self.get().state(); }));
          })
      .def_prop_ro("failure", &Rank::Failure)
      .def("supports", &Rank::Supports, nb::arg("kind"), nb::arg("dtype"),
           nb::arg("op").none())
      .def("wait", &Rank::Wait, nb::arg("stream").none(),
           nb::arg("timeout").none())
      .def("finish", &Rank::Finish, nb::arg("timeout").none())
      .def("barrier", &Rank::Barrier, nb::arg("timeout").none())
      .def("abort", &Rank::Abort, nb::arg("why").none())
      .def("split", &Rank::Split, nb::arg("color").none(),
           nb::arg("key").none())
      .def("shrink", &Rank::Shrink, nb::arg("gone").none())
      .def("register", &Rank::Register, nb::arg("array").none())
      .def("records", &Rank::Records);
  BindRegistration(module);
  module.def("_create_rank", &CreateOver, nb::arg("device").none(),
             nb::arg("rank"), nb::arg("size"), nb::arg("all_gather"),
             nb::arg("options"));
  module.def("_create_rank_in_folder", &CreateInFolder,
             nb::arg("device").none(), nb::arg("folder"), nb::arg("rank"),
             nb::arg("size"), nb::arg("job"), nb::arg("options"));
  module.def("_create_rank_over_pmix", &CreateOverPmix,
             nb::arg("device").none(), nb::arg("options"));
  module.def("_create_ranks", &CreateAll, nb::arg("devices"),
             nb::arg("options"));
  module.def("_split_ranks", &SplitAll, nb::arg("ranks"),
             nb::arg("colors").none(), nb::arg("keys").none());
  module.def("_shrink_ranks", &ShrinkAll, nb::arg("ranks"),
             nb::arg("gone").none());
  module.def("_finish_ranks", &FinishAll, nb::arg("ranks"),
             nb::arg("timeout").none());
  // For the end of the interpreter.
  module.def("_end_exchanges", [] {
    WithoutLock([] {
      EndExchanges();
      return 0;
    });
  });
  // False: NCCL is loaded already.
  module.def(
      "_set_nccl_library",
      [](const std::string& path) {
        return collectives::SetNcclLibrary(path).ok();
      },
      nb::arg("path"));
  module.def("_line_here", &LineHere);
  module.def("_submit_collectives", &SubmitAll, nb::arg("operations"));
}

}  // namespace devrt::python
