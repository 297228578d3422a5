# SPDX-License-Identifier: Apache-2.0
"""Defects of peer access."""

from mutants import Mutant

ENABLE = ("  if ((enabled_[device].fetch_or(Bit(peer)) & Bit(peer)) == 0) "
          "return nullptr;\n")
DISABLE = ("  if ((enabled_[device].fetch_and(~Bit(peer)) & Bit(peer)) != 0) "
           "return nullptr;\n")

MUTANTS = [
    Mutant(
        name="peer_enable_both_ways",
        what="Enabling a peer enables both directions.",
        witness="The other direction is ALREADY_EXISTS.",
        items="C75", group="peer", file="memory/peers.cc",
        old=ENABLE,
        new=ENABLE.replace(
            "  if (", "  if (device < peer) enabled_[peer].fetch_or(Bit(device))"
            ";\n  if (", 1)),
    Mutant(
        name="peer_enable_twice_accepted",
        what="Enabling a peer again is accepted.",
        witness="The second call is not ALREADY_EXISTS.",
        items="C76", group="peer", file="memory/peers.cc",
        old=ENABLE,
        new="  enabled_[device].fetch_or(Bit(peer));\n"
            "  if (devices_ != 0) return nullptr;\n"),
    Mutant(
        name="peer_disable_ignored",
        what="Disabling a peer does nothing.",
        witness="Enabling it again is ALREADY_EXISTS.",
        items="C76", group="peer", file="memory/peers.cc",
        old=DISABLE,
        new="  if ((enabled_[device].load() & Bit(peer)) != 0) return nullptr;"
            "\n"),
    Mutant(
        name="peer_disable_when_off_accepted",
        what="Disabling a peer that is off is accepted.",
        witness="The call is not FAILED_PRECONDITION.",
        items="C76", group="peer", file="memory/peers.cc",
        old=DISABLE,
        new="  enabled_[device].fetch_and(~Bit(peer));\n"
            "  if (devices_ != 0) return nullptr;\n"),
    Mutant(
        name="peer_can_access_lies",
        what="Every device is said to reach every other.",
        witness="can_access is true and enabling the peer fails.",
        items="C76", group="peer", file="table/peers.cc", config="peers=none",
        old="  *can = device != peer && memory->CanAccessPeer(device, peer) ? 1 "
            ": 0;\n",
        new="  *can = device != peer ? 1 : 0;\n"),
    Mutant(
        name="peer_access_of_old_memory_only",
        what="Peer access ends when the peer allocates.",
        witness="Memory that was allocated after enabling cannot be reached.",
        items="C77", group="peer", file="memory/memory.cc",
        old="""\
  if (devrt_status error = impl_->CheckDevice(device)) return error;
  impl_->monitor->Watch();
""",
        new="""\
  if (devrt_status error = impl_->CheckDevice(device)) return error;
  for (uint32_t other = 0; other < impl_->config.devices; ++other) {
    if (impl_->peers.Enabled(other, device)) {
      static_cast<void>(impl_->peers.Disable(other, device));
    }
  }
  impl_->monitor->Watch();
"""),
    Mutant(
        name="peer_access_unchecked",
        what="Kernels may access memory of every device.",
        witness="A kernel that writes to a peer that is not enabled is no "
                "fault.",
        items="C78", group="peer", file="memory/memory.cc",
        old="  if (found.space == Space::kDevice && found.device != device &&\n",
        new="  if (found.space == Space::kHost && found.device != device &&\n"),
]
