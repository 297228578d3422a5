// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/storage_uses.h"

#include <algorithm>

namespace devrt::internal {

namespace {

template <typename F>
void EraseIf(StorageUses::List* list, F f) {
  list->erase(std::remove_if(list->begin(), list->end(), f), list->end());
}

// More reads than this are searched for complete ones.
constexpr size_t kManyReads = 8;

}  // namespace

bool StorageUses::LearnsNoted(const StorageUse& use, bool writes) {
  if (!IsInList(use, writes)) return false;
  noted_[writes ? 1 : 0] = {use.epoch, use.stream.serial()};
  return true;
}

void StorageUses::Merge(const StorageUse& use, List* list) {
  for (StorageUse& known : *list) {
    if (known.timeline != use.timeline || known.capture != use.capture) {
      continue;
    }
    KeepLater(use, &known);
    return;
  }
  list->push_back(use);
}

void StorageUses::MergeUse(const StorageUse& use, bool writes) {
  if (ABSL_PREDICT_FALSE(use.captured())) DropOver();
  Merge(use, writes ? &writes_ : &reads_);
  FindSole();
}

void StorageUses::FindSole() {
  ForgetNoted();
  sole_ = nullptr;
  if (empty()) return;
  const Timeline* const first =
      (writes_.empty() ? reads_ : writes_).front().timeline;
  for (const List* list : {&writes_, &reads_}) {
    for (const StorageUse& use : *list) {
      if (use.timeline != first || use.captured()) return;
    }
  }
  sole_ = first;
}

void StorageUses::MergeOrdered(const StorageUse& use, bool writes) {
  // The usual case: one stream.
  List* const same = writes ? &writes_ : &reads_;
  if (same->size() == 1 && (!writes || reads_.empty()) && !use.captured() &&
      !same->front().captured() && same->front().timeline == use.timeline) {
    ForgetNoted();
    KeepLater(use, &same->front());
    return;
  }
  // Captured work does not run, so it replaces no use.
  if (use.captured()) {
    MergeUse(use, writes);
    return;
  }
  const auto past = [&](const StorageUse& known) {
    return !known.captured() && known.timeline != use.timeline &&
           use.timeline->IsPast(known);
  };
  if (writes) {
    EraseIf(&reads_, [&](const StorageUse& known) {
      return known.timeline == use.timeline ? !known.captured() : past(known);
    });
    if (writes_.size() > 1 || (!writes_.empty() && past(writes_.front()))) {
      EraseIf(&writes_, past);
    }
  } else if (reads_.size() >= kManyReads) {
    EraseIf(&reads_, past);
  }
  MergeUse(use, writes);
}

void StorageUses::DropComplete() {
  const auto complete = [](const StorageUse& use) {
    return use.captured() ? IsOver(use.capture)
                          : use.timeline->IsComplete(use.epoch);
  };
  EraseIf(&reads_, complete);
  EraseIf(&writes_, complete);
  FindSole();
}

void StorageUses::DropOver() {
  const auto over = [](const StorageUse& use) { return IsOver(use.capture); };
  EraseIf(&reads_, over);
  EraseIf(&writes_, over);
}

}  // namespace devrt::internal
