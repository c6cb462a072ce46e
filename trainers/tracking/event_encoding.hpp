// TensorBoard's event files, as bytes: the few messages of its protocol buffers that a training
// needs, each in the frame of a TFRecord. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace trainer {

/// Name and value of a metric.
using Scalar = std::pair<const char*, double>;

/// Returns the CRC-32C (Castagnoli) of the bytes.
std::uint32_t crc32c(std::string_view bytes);

/// Returns the length, its masked checksum, the bytes and their masked checksum.
std::string tf_record(std::string_view bytes);

/// Returns the first event of a file. `wall_time`, here and below: seconds since 1970.
std::string version_event(double wall_time);
/// Returns an event that makes TensorBoard discard the points of `step` and later steps in earlier
/// files of the folder.
std::string restart_event(double wall_time, std::int64_t step);
std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars);
/// Returns an event with text, which TensorBoard renders as Markdown.
std::string text_event(double wall_time, const std::string& tag, const std::string& text);

/// Returns a Markdown table of two columns. Texts are escaped and in one line; control characters
/// become spaces.
std::string settings_table(const std::map<std::string, std::string>& settings);

}  // namespace trainer
