// Small GPU programs, each with one rule that it can follow or violate. Comments describe the
// intended computation; the programs return whether they achieved it.
#pragma once

namespace cuda_on_host::faults {

// Adds up 256 numbers in a block's shared memory; the threads wait for each other between the
// steps.
bool sum_in_block(bool waits);
// Does the same; threads without numbers also reach the barriers.
bool sum_of_some(bool all_come);
// Copies 100 numbers with 256 threads.
bool copy_within(bool bounds);
// Copies from memory that is freed after the copy, or before it.
bool copy_then_free(bool in_order);
// Copies numbers that were written before.
bool copy_written(bool written);
// Blocks write to separate places.
bool write_apart(bool apart);
// Reads through a pointer to device memory.
bool read_argument(bool of_device);
// Reads 16 bytes at once from the start of the memory, or from one number further.
bool read_packed(bool aligned);
// Passes a value from each lane of a warp to its neighbour.
bool rotate_in_warp(bool all_lanes);
// Declares all shared memory that a block may have.
bool fill_shared(bool fits);
// Waits for asynchronous copies to shared memory before it reads them.
bool copy_beside(bool waits);
// Computes a product on matrix units, with fragments in order or with two of a lane's words
// exchanged.
bool multiply_matrices(bool in_order);
// Computes a product in all lanes of a warp.
bool multiply_together(bool all_lanes);
// Reads in one stream what another wrote, after an event.
bool pass_between_streams(bool waits);
// Refills a pinned buffer once the copy from it is done.
bool reuse_pinned(bool waits);
// Reads a result on the host with a copy.
bool read_result(bool by_copy);
// Waits for the stream whose results it reads.
bool wait_for_result(bool waits);

// Returns whether the launch of a failing kernel raises the error itself.
bool ends_in_launch();

}  // namespace cuda_on_host::faults
