# SPDX-License-Identifier: Apache-2.0
"""The interface of the peer modules, one for each library.

A peer module has:

  load()          imports it; Absent: what it needs besides is not there
  VERSIONS        names of its distributions; with none of them installed its
                  cases skip, else they must run
  ROUTES          {name: function(x)}: views of a devrt array, by each way in
  host(view)      its values, as an ndarray on the host, after a wait
  pointer(view)   its address
  fill(view, v)   writes v everywhere, on the library's current stream
  synchronize()   waits for the library's current stream

and, where it can be there without: gpu(), Absent unless it finds a GPU;
and, where it produces memory:

  make(host, place)  its own array there, of an ndarray
  PLACES             the names of those places
  watch(array, place)  where the exported array itself does not tell: a
                     function that says whether its memory was released, or None
"""


class Absent(Exception):
  """Something that a peer needs is not on this machine: says what."""
