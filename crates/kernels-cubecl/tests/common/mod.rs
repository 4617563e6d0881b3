//! What the tests and the benchmark share: devices, tensors from reference values, and both passes of
//! RMSNorm held against the reference.

#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

#[path = "../../../kernels-cpu/tests/reference/mod.rs"]
pub mod reference;

use armature_cubecl::{rms_norm, rms_norm_backward, rms_norm_saving};
use burn_backend::ops::FloatTensorOps;
use burn_backend::{DType, Shape, TensorData, TensorMetadata};
use burn_cubecl::tensor::CubeTensor;
use burn_cubecl::{CubeBackend, CubeDevice};
use reference::{error_by, relative_error, values};

/// The epsilon of all cases.
pub const EPSILON: f64 = 1e-5;

/// The device of a runtime, if the build and the machine have it; else why not.
pub fn device(runtime: &str) -> Result<CubeDevice, String> {
    let device = match runtime {
        "cuda" => CubeDevice::cuda(0),
        "rocm" => CubeDevice::rocm(0),
        "vulkan" => CubeDevice::vulkan(Default::default()),
        "wgpu" => CubeDevice::wgpu(Default::default()),
        "cpu" => CubeDevice::cpu(),
        other => return Err(format!("no runtime is called {other}")),
    };
    device.map_err(|error| error.to_string())
}

/// How far from the reference results in this dtype may be.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 2e-6,
        DType::F16 => 1e-3,
        _ => 5e-3,
    }
}

/// Reference values as a tensor, rounded to the dtype.
pub fn tensor(device: &CubeDevice, shape: &[usize], dtype: DType, seed: u64) -> CubeTensor {
    tensor_of(device, shape, dtype, values(shape.iter().product(), seed))
}

/// These values as a tensor, rounded to the dtype.
pub fn tensor_of(
    device: &CubeDevice,
    shape: &[usize],
    dtype: DType,
    values: Vec<f64>,
) -> CubeTensor {
    let data = TensorData::new(values, Shape::from(shape)).convert_dtype(dtype);
    CubeBackend::float_from_data(data, device)
}

/// The tensor's values, exact.
pub fn exact(tensor: &CubeTensor) -> Vec<f64> {
    let read = CubeBackend::float_into_data(tensor.clone());
    let data = cubecl::future::block_on(read).expect("the tensor can be read");
    data.iter::<f64>().collect()
}

/// Whether two results are the same, NaN being itself.
pub fn same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a == b || (a.is_nan() && b.is_nan()))
}

/// Errors of both passes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Errors {
    /// Of y, relative.
    pub y: f64,
    /// Of rstd, relative.
    pub rstd: f64,
    /// Of dx, by the larger of its two terms.
    pub dx: f64,
    /// Of dw, by the larger of its sums and the size of their terms.
    pub dw: f64,
}

impl Errors {
    /// The largest.
    pub fn max(&self) -> f64 {
        // `f64::max` would drop a NaN.
        [self.y, self.rstd, self.dx, self.dw]
            .into_iter()
            .fold(0.0, |max, error| {
                if error.is_nan() || error > max {
                    error
                } else {
                    max
                }
            })
    }
}

/// Runs both passes and measures them; x, weight and grad must keep their values.
pub fn errors(x: CubeTensor, weight: Option<CubeTensor>, grad: CubeTensor) -> Errors {
    let shape = x.shape();
    let hidden = *shape.last().unwrap();
    let sum = if x.dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let before = (exact(&x), weight.as_ref().map(exact), exact(&grad));

    let (y, rstd) = rms_norm_saving(x.clone(), weight.clone(), EPSILON).unwrap();
    let alone = rms_norm(x.clone(), weight.clone(), EPSILON).unwrap();
    let (dx, dw) = rms_norm_backward(
        x.clone(),
        weight.clone(),
        rstd.clone(),
        grad.clone(),
        (true, true),
    )
    .unwrap();
    let (dx, dw) = (dx.unwrap(), dw.unwrap());
    // Not `assert_eq`: who wants to read a tensor.
    assert!(same(&exact(&alone), &exact(&y)), "saving changes nothing");
    let after = (exact(&x), weight.as_ref().map(exact), exact(&grad));
    assert!(after == before, "inputs keep their values");

    let mut rstd_shape = shape.to_vec();
    *rstd_shape.last_mut().unwrap() = 1;
    assert_eq!((y.shape(), y.dtype), (shape.clone(), x.dtype));
    assert_eq!((dx.shape(), dx.dtype), (shape.clone(), x.dtype));
    assert_eq!((rstd.shape().to_vec(), rstd.dtype), (rstd_shape, sum));
    assert_eq!((dw.shape().to_vec(), dw.dtype), (vec![hidden], x.dtype));

    let (x, weight, grad) = (before.0, before.1.as_deref(), before.2);
    if hidden == 0 {
        return Errors::default();
    }
    let (y_true, rstd_true) = reference::forward(&x, weight, hidden, EPSILON);
    let (dx_true, dw_true) = reference::backward(&x, weight, &grad, hidden, EPSILON);
    let scale = reference::dx_scale(&x, weight, &grad, hidden, EPSILON);
    let dw_scale = reference::dw_scale(&x, &grad, hidden, EPSILON);
    Errors {
        y: relative_error(&exact(&y), &y_true),
        rstd: relative_error(&exact(&rstd), &rstd_true),
        dx: error_by(&exact(&dx), &dx_true, &scale),
        dw: error_by(&exact(&dw), &dw_true, &dw_scale),
    }
}
