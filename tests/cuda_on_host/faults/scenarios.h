// Small programs for a GPU, each with one thing that it may do rightly or leave out. What they are
// to compute is in the comment; they return whether they did.
#pragma once

namespace cuda_on_host::faults {

// A block adds 256 numbers up in its memory; its threads wait for each other between the steps.
bool sum_in_block(bool waits);
// The same, where threads that have nothing to add come to the barriers, too.
bool sum_of_some(bool all_come);
// Copies 100 numbers by 256 threads.
bool copy_within(bool bounds);
// Copies from memory that is freed behind the copy, or before it.
bool copy_then_free(bool in_order);
// Copies numbers that were written before.
bool copy_written(bool written);
// Blocks write to places of their own.
bool write_apart(bool apart);
// Reads through a pointer to the device's memory.
bool read_argument(bool of_device);
// Reads 16 bytes at once from the start of the memory, or one number further.
bool read_packed(bool aligned);
// A warp's lanes all give a value to their neighbour.
bool rotate_in_warp(bool all_lanes);
// Declares as much memory of the block as there is.
bool fill_shared(bool fits);
// Copies to the block's memory that go on beside the threads are waited for before they are read.
bool copy_beside(bool waits);
// A product on a matrix unit, of fragments in their order or with two of a lane's words exchanged.
bool multiply_matrices(bool in_order);
// All lanes of a warp come to a product.
bool multiply_together(bool all_lanes);
// One stream reads what another wrote, behind an event.
bool pass_between_streams(bool waits);
// A pinned buffer is filled anew when the copy from it is done.
bool reuse_pinned(bool waits);
// The host reads a result by a copy.
bool read_result(bool by_copy);
// Waits for the stream whose results it reads.
bool wait_for_result(bool waits);

// Whether the launch of a kernel that fails raises the error itself.
bool ends_in_launch();

}  // namespace cuda_on_host::faults
