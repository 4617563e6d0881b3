//! Conformance and gradient checks for custom Burn ops, to be called from an author's tests.
//!
//! The reference is always the caller's own (a closed form in f64, say), never the arm under test.

use armature_core::BackendTag;
use armature_core::backend::devices;
use burn::tensor::{Device, Tensor, TensorData};

/// Names the backends that tests run on, by their features, separated by commas; unset for all.
const CHOICE: &str = "ARMATURE_BACKENDS";

/// Every backend that armature-core's features compile in, with the first device of it that this
/// machine has; with the environment variable `ARMATURE_BACKENDS`, those that it names.
///
/// A backend without a device is left out; [`missing_devices`] names those.
///
/// # Panics
///
/// Where `ARMATURE_BACKENDS` names a backend that does not exist.
pub fn available_devices() -> Vec<(BackendTag, Device)> {
    let with_device = |tag| Some((tag, devices(tag).into_iter().next()?));
    chosen().into_iter().filter_map(with_device).collect()
}

/// The backends among those of [`available_devices`] of which this machine has no device, so that a
/// test can say what it does not run on.
///
/// # Panics
///
/// As [`available_devices`].
pub fn missing_devices() -> Vec<BackendTag> {
    chosen()
        .into_iter()
        .filter(|tag| devices(*tag).is_empty())
        .collect()
}

fn chosen() -> Vec<BackendTag> {
    // Capture records and gives no values back.
    let compiled = BackendTag::ALL
        .into_iter()
        .filter(|tag| tag.is_compiled_in());
    let compiled = compiled.filter(|tag| *tag != BackendTag::Capture);
    let Ok(choice) = std::env::var(CHOICE) else {
        return compiled.collect();
    };
    let choice: Vec<BackendTag> = choice
        .split(',')
        .map(|name| {
            name.trim()
                .parse()
                .unwrap_or_else(|error| panic!("{CHOICE}: {error}"))
        })
        .collect();
    compiled.filter(|tag| choice.contains(tag)).collect()
}

/// The values of a float tensor in f64, in row-major order.
///
/// # Panics
///
/// Where the tensor cannot be read, with Burn's text.
pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    let data: TensorData = tensor.into_data().convert::<f64>();
    data.try_to_vec().expect("converted to f64")
}

/// `‖found − expected‖ / ‖expected‖` in the Euclidean norm; the absolute error where the reference
/// is zero. NaN in either makes it NaN, so that no bound accepts it.
///
/// # Panics
///
/// Where the lengths differ.
pub fn relative_error(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len(), "the number of values");
    let square = |sum: f64, value: f64| value.mul_add(value, sum);
    let difference = found
        .iter()
        .zip(expected)
        .map(|(f, e)| f - e)
        .fold(0.0, square)
        .sqrt();
    let norm = expected.iter().copied().fold(0.0, square).sqrt();
    if norm == 0.0 {
        difference
    } else {
        difference / norm
    }
}

/// Central finite differences of `f` at `x`, one coordinate at a time, in f64.
///
/// The step of coordinate `i` is `1e-5·max(1, |xᵢ|)`; for a function with bounded third
/// derivatives, the error is of the order of 1e-10.
pub fn finite_differences(x: &[f64], mut f: impl FnMut(&[f64]) -> f64) -> Vec<f64> {
    let mut moved = x.to_vec();
    (0..x.len())
        .map(|i| {
            let step = 1e-5 * x[i].abs().max(1.0);
            moved[i] = x[i] + step;
            let above = f(&moved);
            moved[i] = x[i] - step;
            let below = f(&moved);
            moved[i] = x[i];
            (above - below) / (2.0 * step)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_relative_and_nan_never_passes() {
        assert_eq!(relative_error(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert!((relative_error(&[3.0, 4.5], &[3.0, 4.0]) - 0.1).abs() < 1e-12);
        assert_eq!(relative_error(&[0.5], &[0.0]), 0.5);
        assert!(relative_error(&[f64::NAN], &[1.0]).is_nan());
        assert!(relative_error(&[1.0], &[f64::NAN]).is_nan());
    }

    #[test]
    fn differences_of_a_known_function() {
        // f(x, y) = x²·y: (2xy, x²).
        let found = finite_differences(&[3.0, -2.0], |v| v[0] * v[0] * v[1]);
        assert!(relative_error(&found, &[-12.0, 9.0]) < 1e-9, "{found:?}");
    }
}
