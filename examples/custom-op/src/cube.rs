//! The kernel for every CubeCL runtime.

use burn::backend::TensorMetadata;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::calculate_cube_count_elemwise;
use cubecl::prelude::*;

#[cube(launch)]
fn silu_mul_kernel(gate: &[f32], up: &[f32], y: &mut [f32]) {
    if ABSOLUTE_POS < y.len() {
        let x = gate[ABSOLUTE_POS];
        y[ABSOLUTE_POS] = x / (1.0 + (-x).exp()) * up[ABSOLUTE_POS];
    }
}

pub(crate) fn silu_mul(gate: CubeTensor, up: CubeTensor) -> CubeTensor {
    let (gate, up) = (into_contiguous(gate), into_contiguous(up));
    let client = gate.client.clone();
    let y = empty_device_contiguous_dtype(
        client.clone(),
        gate.device.clone(),
        gate.shape(),
        gate.dtype,
    );
    let elements = gate.shape().num_elements();
    if elements == 0 {
        return y;
    }
    let units = CubeDim::new(&client, elements);
    let cubes = calculate_cube_count_elemwise(&client, elements, units);
    silu_mul_kernel::launch(
        &client,
        cubes,
        units,
        gate.into_buffer_arg(),
        up.into_buffer_arg(),
        y.clone().into_buffer_arg(),
    );
    y
}
