//! What was composed, and the text over it, onto a surface.
//!
//! u8 numbers are shown unchanged: pictures are read and surfaces written without any conversion between sRGB and linear
//! light, so a grey ramp stays a ramp. Scaling therefore mixes sRGB numbers, as video players do.

use crate::gpu::Gpu;
use crate::overlay::{Content, Overlay};

/// What is painted.
pub(crate) struct Painting<'a> {
    pub(crate) composed: &'a wgpu::TextureView,
    /// What is written over it.
    pub(crate) content: &'a Content,
    /// Width and height, in pixels.
    pub(crate) size: [u32; 2],
    /// Pixels a point.
    pub(crate) scale: f32,
}

/// Paints surfaces of one format.
pub(crate) struct Painter {
    layout: wgpu::BindGroupLayout,
    pipeline: wgpu::RenderPipeline,
    /// What was composed into, and its binding.
    bound: Option<(wgpu::TextureView, wgpu::BindGroup)>,
    overlay: Overlay,
}

impl Painter {
    pub(crate) fn new(gpu: &Gpu, format: wgpu::TextureFormat) -> Self {
        let device = &gpu.device;
        let shader = device.create_shader_module(wgpu::include_wgsl!("blit.wgsl"));
        let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
            label: Some("blit"),
            entries: &[wgpu::BindGroupLayoutEntry {
                binding: 0,
                visibility: wgpu::ShaderStages::FRAGMENT,
                ty: wgpu::BindingType::Texture {
                    sample_type: wgpu::TextureSampleType::Float { filterable: false },
                    view_dimension: wgpu::TextureViewDimension::D2,
                    multisampled: false,
                },
                count: None,
            }],
        });
        let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: Some("blit"),
            bind_group_layouts: &[Some(&layout)],
            immediate_size: 0,
        });
        let pipeline = device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
            label: Some("blit"),
            layout: Some(&pipeline_layout),
            vertex: wgpu::VertexState {
                module: &shader,
                entry_point: Some("cover"),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                buffers: &[],
            },
            primitive: wgpu::PrimitiveState::default(),
            depth_stencil: None,
            multisample: wgpu::MultisampleState::default(),
            fragment: Some(wgpu::FragmentState {
                module: &shader,
                entry_point: Some(if format.is_srgb() { "copy_decoded" } else { "copy" }),
                compilation_options: wgpu::PipelineCompilationOptions::default(),
                targets: &[Some(format.into())],
            }),
            multiview_mask: None,
            cache: None,
        });
        Self { layout, pipeline, bound: None, overlay: Overlay::new(gpu, format) }
    }

    /// Let `encoder` paint `surface`, which is of the picture's size. The commands returned must be submitted before the
    /// encoder's.
    pub(crate) fn paint(
        &mut self,
        gpu: &Gpu,
        encoder: &mut wgpu::CommandEncoder,
        surface: &wgpu::TextureView,
        picture: &Painting<'_>,
    ) -> Vec<wgpu::CommandBuffer> {
        let &Painting { composed, content, size, scale } = picture;
        let prepared = self.overlay.prepare(gpu, encoder, content, size, scale);
        let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
            label: Some("blit"),
            color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                view: surface,
                depth_slice: None,
                resolve_target: None,
                ops: wgpu::Operations {
                    // Every pixel is painted.
                    load: wgpu::LoadOp::Clear(wgpu::Color::BLACK),
                    store: wgpu::StoreOp::Store,
                },
            })],
            depth_stencil_attachment: None,
            timestamp_writes: None,
            occlusion_query_set: None,
            multiview_mask: None,
        });
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, self.bind(gpu, composed), &[]);
        pass.draw(0..3, 0..1);
        self.overlay.draw(pass, prepared)
    }

    fn bind(&mut self, gpu: &Gpu, composed: &wgpu::TextureView) -> &wgpu::BindGroup {
        if self.bound.as_ref().is_some_and(|(view, _)| view != composed) {
            self.bound = None;
        }
        let (_, group) = self.bound.get_or_insert_with(|| {
            let entry =
                wgpu::BindGroupEntry { binding: 0, resource: wgpu::BindingResource::TextureView(composed) };
            let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some("blit"),
                layout: &self.layout,
                entries: &[entry],
            });
            (composed.clone(), group)
        });
        group
    }
}
