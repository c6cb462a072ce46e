// TensorBoard's event files, as bytes: the few messages of its protocol buffers that a training
// needs, each in the frame of a TFRecord. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace trainer {

/// Name and value of a metric.
using Scalar = std::pair<const char*, double>;

/// CRC-32C (Castagnoli).
std::uint32_t crc32c(std::string_view bytes);

/// Length, masked checksum of the length, the bytes, masked checksum of the bytes.
std::string tf_record(std::string_view bytes);

/// A file's first event. `wall_time`: seconds since 1970, in all of them.
std::string version_event(double wall_time);
/// Makes TensorBoard forget what earlier files of the folder have of `step` and later steps.
std::string restart_event(double wall_time, std::int64_t step);
std::string scalars_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars);
/// Shown as Markdown.
std::string text_event(double wall_time, const std::string& tag, const std::string& text);

}  // namespace trainer
