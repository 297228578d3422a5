/* SPDX-License-Identifier: Apache-2.0
 *
 * Events: points in the work of a stream.  Here all work before them is done.
 */
#include <stdlib.h>

#include "backend.h"

static struct mybackend_event* event_of(devrt_event event) {
  return (struct mybackend_event*)(void*)event;
}

devrt_status mybackend_event_create(void* self, uint32_t device, uint32_t flags,
                                    devrt_event* event) {
  struct mybackend_event* made;
  (void)flags;
  if (device >= MYBACKEND_DEVICES) return mybackend_no_device(self, device);
  made = malloc(sizeof *made);
  if (made == NULL) {
    return mybackend_error(self, DEVRT_RESOURCE_EXHAUSTED,
                           "out of host memory");
  }
  made->device = device;
  *event = (devrt_event)(void*)made;
  return NULL;
}

devrt_status mybackend_event_destroy(void* self, devrt_event event) {
  (void)self;
  free(event_of(event));
  return NULL;
}

devrt_status mybackend_event_record(void* self, devrt_event event,
                                    devrt_stream stream) {
  const struct mybackend_stream* of =
      (const struct mybackend_stream*)(const void*)stream;
  if (event_of(event)->device != of->device) {
    return mybackend_error(
        self, DEVRT_INVALID_ARGUMENT,
        "the event belongs to another device than the stream");
  }
  return NULL;
}

devrt_status mybackend_event_query(void* self, devrt_event event,
                                   uint32_t* done) {
  (void)self;
  (void)event;
  *done = 1;
  return NULL;
}

devrt_status mybackend_event_sync(void* self, devrt_event event) {
  (void)self;
  (void)event;
  return NULL;
}
