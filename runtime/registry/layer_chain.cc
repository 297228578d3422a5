// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/layer_chain.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/inspect.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/plugins/host_table.h"
#include "runtime/plugins/table.h"
#include "runtime/registry/open.h"

namespace devrt::internal {

// Stands between a layer with empty slots and its caller: sends calls of empty
// slots to the next link.  Not of the unnamed namespace: a member of
// LayerChain::Link.
struct LayerRelay {
  void* self;
  devrt_ops_v0 ops;
  void* next_self;
  const devrt_ops_v0* next;
};

namespace {

template <auto kSlot, typename... Args>
devrt_status ToLayer(void* self, Args... args) {
  const auto* const relay = static_cast<const LayerRelay*>(self);
  return (relay->ops.*kSlot)(relay->self, args...);
}

template <auto kSlot, typename... Args>
devrt_status ToNext(void* self, Args... args) {
  const auto* const relay = static_cast<const LayerRelay*>(self);
  return (relay->next->*kSlot)(relay->next_self, args...);
}

template <auto kSlot, typename... Args>
void Direct(devrt_status (**slot)(void*, Args...)) {
  *slot = *slot != nullptr ? &ToLayer<kSlot, Args...> : &ToNext<kSlot, Args...>;
}

bool IsComplete(const devrt_ops_v0& ops) {
#define DEVRT_SLOT(name, required, capability) \
  if (ops.name == nullptr) return false;
#include "devrt/backends/abi/devrt_slots.inc"
  return true;
}

}  // namespace

struct LayerChain::Link {
  // The view that the layer gets of `inner`.
  struct Next : devrt_next_v0 {
    Link* inner = nullptr;
  };

  const Layer* layer = nullptr;  // nullptr for the backend
  Next next{};
  void* own_self = nullptr;
  void (*own_shutdown)(void*) = nullptr;
  LayerRelay relay{};
  void* self = nullptr;
  devrt_ops_v0 ops{};
  uint64_t capabilities = 0;
  Mutex mutex;
  std::map<std::string, Extension> extensions DEVRT_GUARDED_BY(mutex);

  Extension FindExtension(const char* name);
  // The table that the layer puts in front of `behind`, or adds if `behind` is
  // empty; nullptr: neither.
  const void* AskLayer(const char* name, Extension behind,
                       void** front_self) const;
  // What the layer is told of the link that it stands before.
  void SetInner(Link* inner, const devrt_manifest_v0* manifest) {
    next.inner = inner;
    next.struct_size = sizeof(devrt_next_v0);
    next.manifest = manifest;
    next.self = inner->self;
    next.ops = &inner->ops;
    next.capabilities = inner->capabilities;
    next.extension = &NextExtension;
  }
};

Extension LayerChain::Link::FindExtension(const char* name) {
  if (layer == nullptr) return {ops.get_extension(self, name), self};
  const Extension behind = next.inner->FindExtension(name);
  MutexLock lock(&mutex);
  const auto [found, is_new] = extensions.try_emplace(name, behind);
  if (is_new) {
    void* front_self = behind.self;
    const void* const front = AskLayer(name, behind, &front_self);
    if (front != nullptr) found->second = {front, front_self};
  }
  return found->second;
}

const void* LayerChain::Link::AskLayer(const char* name, Extension behind,
                                       void** front_self) const {
  const devrt_layer_v0& table = layer->table;
  if (behind.table == nullptr) {
    return table.add_extension == nullptr
               ? nullptr
               : table.add_extension(own_self, name, front_self);
  }
  return table.attach_extension == nullptr
             ? nullptr
             : table.attach_extension(own_self, name, behind.self, behind.table,
                                      front_self);
}

LayerChain::LayerChain(const devrt_manifest_v0* manifest, void* self,
                       const devrt_ops_v0* ops, uint64_t capabilities) {
  auto link = std::make_unique<Link>();
  link->next.manifest = manifest;
  link->self = link->own_self = self;
  link->own_shutdown = ops->shutdown;
  link->ops = *ops;
  link->capabilities = capabilities;
  links_.push_back(std::move(link));
}

LayerChain::~LayerChain() = default;

void* LayerChain::self() const { return links_.back()->self; }
const devrt_ops_v0& LayerChain::ops() const { return links_.back()->ops; }
uint64_t LayerChain::capabilities() const {
  return links_.back()->capabilities;
}
Extension LayerChain::FindExtension(const char* name) {
  return links_.back()->FindExtension(name);
}

const void* LayerChain::NextExtension(const devrt_next_v0* next,
                                      const char* name, void** self) {
  const Extension found =
      static_cast<const Link::Next*>(next)->inner->FindExtension(name);
  *self = found.self;
  return found.table;
}

absl::Status LayerChain::Attach(const Layer* layer) {
  Link* const inner = links_.back().get();
  auto link = std::make_unique<Link>();
  link->layer = layer;
  link->SetInner(inner, links_.front()->next.manifest);
  devrt_backend_v0 front = {};
  front.struct_size = sizeof front;
  front.self = inner->self;
  front.capabilities = inner->capabilities;
  const std::string what = absl::StrCat("layer ", Quoted(layer->name));
  DEVRT_RETURN_IF_ERROR(WithPrefix(
      absl::StrCat(what, ": "), CallPlugin(layer->name, "attach", [&] {
        return layer->table.attach(layer->table.layer, &link->next, &front);
      })));
  DEVRT_RETURN_IF_ERROR(WithPrefix(absl::StrCat(what, ": "),
                                   CopyTable(front.ops, &link->relay.ops)));
  if ((front.capabilities & ~inner->capabilities) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, " adds capabilities that backend ",
        Quoted(links_.front()->next.manifest->backend), " has not: ",
        CapabilityNames(front.capabilities & ~inner->capabilities)));
  }
  link->own_self = front.self;
  link->own_shutdown = link->relay.ops.shutdown;
  link->capabilities = front.capabilities;
  link->ops = link->relay.ops;
  link->self = front.self;
  if (!IsComplete(link->ops)) {
    link->relay.self = front.self;
    link->relay.next_self = inner->self;
    link->relay.next = &inner->ops;
    link->self = &link->relay;
#define DEVRT_SLOT(name, required, capability) \
  Direct<&devrt_ops_v0::name>(&link->ops.name);
#include "devrt/backends/abi/devrt_slots.inc"
  }
  links_.push_back(std::move(link));
  return absl::OkStatus();
}

absl::Status LayerChain::Shutdown() {
  const std::string backend = links_.front()->next.manifest->backend;
  absl::Status first;
  for (auto link = links_.rbegin(); link != links_.rend(); ++link) {
    if ((*link)->own_shutdown == nullptr) continue;
    const Layer* const layer = (*link)->layer;
    const std::string name = layer != nullptr ? layer->name : backend;
    first.Update(
        WithPrefix(absl::StrCat(layer != nullptr ? "layer " : "backend ",
                                Quoted(name), ": "),
                   CallPlugin(name, "shutdown", [&]() -> devrt_status {
                     (*link)->own_shutdown((*link)->own_self);
                     return nullptr;
                   })));
  }
  return first;
}

}  // namespace devrt::internal
